"""The store beside its peers: ``python -m benchmarks stores`` measures, ``stores-report`` renders what was measured."""
