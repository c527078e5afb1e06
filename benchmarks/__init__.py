"""What headwise costs beside everything that a user could call instead; ``python -m benchmarks --help``.

cases          what is timed: named calls, sized like real work
peers          torch, the unfused path, flex attention; runtimes: ONNX Runtime, OpenVINO, zentorch
environments   a Python for each peer that must not share ours, made on request under build/peers
gate           no time without a right answer
probes         what this machine can do: multiply-adds and reads a second
timing         us and the peers in turn, in one process
models         whole models of transformers
worker         runs cases in one environment; __main__ starts the workers and keeps the record
floors         what is promised; render: the record as a page, docs/benchmarks.md
observed       what watching SmolLM2 costs, with peak memory: the README's table
"""
