"""How fast lines and jobs are found: the corpus, the rivals over the same lines, and rota."""
