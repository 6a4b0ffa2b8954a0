"""Settings shared by all tests."""

from __future__ import annotations

import pytest
from hypothesis import settings

from dpaccount.cli.main import run

settings.register_profile("steady", derandomize=True, deadline=None, max_examples=40)
settings.load_profile("steady")


@pytest.fixture
def shell(capsys):
    """Run a command line that must succeed; give back what it printed."""

    def call(*arguments, code=0, warning=""):
        got = run([str(a) for a in arguments])
        out, err = capsys.readouterr()
        assert got == code, err
        assert warning in err
        if code == 0 and not warning:
            assert err == ""
        return out if code == 0 else err

    return call
