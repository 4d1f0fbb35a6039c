"""Soak: a streaming pipeline with ever new keys, watched for anything that grows.

`headrace lab run soak --minutes 20` runs, fits, draws and judges.
"""
