"""Where something is missing, time limits hold in another way, or the command says what it cannot do."""

from __future__ import annotations

from pathlib import Path

from tests.faults.app import Brief, Nap
from tests.faults.workers import Site, wait_for


def at_every_start(folder: Path, code: str) -> dict[str, str]:
    """An environment in which each Python process runs this first."""
    (folder / "first").mkdir()
    (folder / "first" / "sitecustomize.py").write_text(code)
    return {"PYTHONPATH": str(folder / "first")}


def test_f20_without_sigalrm_limits_hold(site: Site, tmp_path: Path) -> None:
    site.environment.update(at_every_start(tmp_path, "import signal\ndel signal.SIGALRM\n"))
    site.dispatch(Brief("good"), Nap(30, tries=1, limit=1))

    site.supervise()
    wait_for(lambda: site.sizes() == (0, 0, 0, 1))

    (failed,) = site.failed()
    (begun,) = site.ledger("begin", job=failed.envelope.id)
    assert failed.error.type.endswith("JobTimeout")
    assert failed.failed_at - begun["at"] < 5
    assert len(site.ledger("end", label="good")) == 1


def test_f20_gevent_is_refused_in_so_many_words(site: Site, tmp_path: Path) -> None:
    patched = "m.is_module_patched = lambda name: True\nsys.modules['gevent.monkey'] = m\n"
    code = f"import sys, types\nm = types.ModuleType('gevent.monkey')\n{patched}"
    site.environment.update(at_every_start(tmp_path, code))
    site.dispatch(Brief("one"))

    worker = site.supervise()

    assert worker.ended() == 1
    assert "gevent has patched the standard library" in worker.log
    assert "--threads" in worker.log
    assert "Traceback" not in worker.log
    assert site.ledger() == []
