"""Bytes at an address → instructions; the bytes come from images and from the kernel."""
