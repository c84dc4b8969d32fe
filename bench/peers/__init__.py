"""Celery, Procrastinate and RQ, each as its own documentation would have it run for work that must not get lost.

They live in an environment of their own (`.venv-peers`, made when first needed from `requirements.txt`), so
`with_celery`, `with_procrastinate` and `with_rq` run there and import nothing of rota.
"""
