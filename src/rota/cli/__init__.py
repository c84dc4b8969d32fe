"""The command line: `main` parses and dispatches, one file per noun carries out, `show` prints."""
