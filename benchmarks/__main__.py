"""Run every script, or those that are named: ``python -m benchmarks [speed steps ...]``."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import time

import benchmarks


def main() -> None:
    """Each script by its name, in turn; a script that fails does not stop the others, but the exit code says so."""
    known = sorted(info.name for info in pkgutil.iter_modules(benchmarks.__path__) if not info.name.startswith("_"))
    wrong = [name for name in sys.argv[1:] if name not in known]
    if wrong:
        sys.exit(f"no such script: {', '.join(wrong)}; there are {', '.join(known)}")
    failed, asked = [], sys.argv[1:] or known
    for name in asked:
        sys.argv[1:] = []  # the scripts' own options are given to them alone
        print(f"== {name}", flush=True)
        start = time.perf_counter()
        try:
            importlib.import_module(f"benchmarks.{name}").main()
        except Exception as error:
            failed.append(name)
            print(f"{name} failed: {type(error).__name__}: {error}", flush=True)
        print(f"== {name} took {time.perf_counter() - start:.0f} s", flush=True)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
