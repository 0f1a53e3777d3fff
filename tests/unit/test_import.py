from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys, time
began = time.process_time()
import flask
after_flask = time.process_time()
import flask_jobs
ended = time.process_time()
print(after_flask - began, ended - after_flask, "sqlalchemy" in sys.modules)
"""


def test_importing_the_library_costs_less_than_half_of_flask_and_imports_no_database() -> None:
    # The numbers are compared with each other, for a busy machine slows both.
    runs = [
        subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True) for _ in range(3)
    ]
    answers = [run.stdout.split() for run in runs]

    assert {answer[2] for answer in answers} == {"False"}
    assert min(float(own) / float(flask) for flask, own, _ in answers) < 0.5
