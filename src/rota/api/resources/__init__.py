"""Routes for people and other languages, a module for each noun."""
