"""Keeps programs and files: places for bytes (a folder, S3), and what is published there."""
