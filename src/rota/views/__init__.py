"""Values as JSON shows them: the documents of `--json`, and the answers of the HTTP API.

A view is a struct, so the fields of a document are declared once, and the OpenAPI document is made of them. Times are
texts in UTC (RFC 3339), durations are texts such as `90s`.
"""
