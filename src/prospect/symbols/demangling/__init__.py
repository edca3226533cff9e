"""Mangled names of C++ and Rust → names as they stand in the source."""
