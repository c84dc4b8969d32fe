"""What every job carries, whoever runs it. Imports nothing: peers live in an environment without rota."""

TEXT = "x" * 189
# What rota makes of {"text": "xxx..."}: 200 bytes of arguments per job.
ARGUMENTS = f'{{"text":"{TEXT}"}}'
