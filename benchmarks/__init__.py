"""Side by side with peers, in one process, cold objects, both directions, medians; results are committed as JSON.

``python -m benchmarks`` runs every script and ``python -m benchmarks.speed`` one of them, in an environment that also holds
dp-accounting 0.6.0, and prv-accountant 0.2.0 and opake-accounting where they install; what is missing is noted in the results.
"""
