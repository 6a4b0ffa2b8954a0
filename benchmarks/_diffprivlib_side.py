"""Run inside an environment with diffprivlib: ``python _diffprivlib_side.py <split.npz> <seeds>`` prints accuracies as JSON.

It imports nothing of this repository, since diffprivlib needs an older scikit-learn.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy as np

REGULARISERS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)


def main(path: str, seeds: int) -> None:
    """Mean accuracy over seeds for every regulariser and epsilon; rows have norm 1."""
    from diffprivlib.models import LogisticRegression

    data = np.load(path)
    out = {}
    for epsilon in (0.1, 1.0, 8.0):
        rows = {}
        for c in REGULARISERS:
            start, scores = time.process_time(), []
            for seed in range(seeds):
                model = LogisticRegression(epsilon=epsilon, C=c, data_norm=1.0, max_iter=500, random_state=seed)
                scores.append(model.fit(data["x"], data["y"]).score(data["x_test"], data["y_test"]))
            error = float(np.std(scores, ddof=1) / np.sqrt(seeds))
            rows[c] = [float(np.mean(scores)), error, (time.process_time() - start) / seeds]
        best = max(rows.values(), key=lambda row: row[0])
        out[epsilon] = {"best": best, "default": rows[1.0]}
    print(json.dumps(out))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1], int(sys.argv[2]))
