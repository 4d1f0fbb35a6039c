"""Soak: a streaming pipeline with ever new keys, watched for anything that grows.

`python -m soak --minutes 20` runs, fits, draws and judges.
"""
