"""A small shop: pages of FastAPI, rows of SQLAlchemy, and everything slow is done by rota. See README.md."""
