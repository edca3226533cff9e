"""Bytes at an address → instructions; and where the bytes of images and of the kernel come from."""
