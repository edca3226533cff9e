"""Mangled names of C++ and Rust → names as in the source."""
