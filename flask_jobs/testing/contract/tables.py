"""What whoever sets up a store may rely on."""

from __future__ import annotations

from ...driver import KeepsTables
from .support import Contract, pop_ids, push


class KeepsTablesContract(Contract):
    """Making the tables, by the driver or by hand."""

    capability = KeepsTables

    def test_making_the_tables_again_keeps_what_is_stored(self, driver: KeepsTables, second: KeepsTables) -> None:
        ids = push(driver)

        driver.prepare()
        second.prepare()

        assert pop_ids(driver, amount=1) == ids

    def test_the_statements_are_told_and_not_run(self, driver: KeepsTables) -> None:
        ids = push(driver)

        first, again = driver.create_sql(), driver.create_sql()

        assert first == again
        assert first.count("CREATE TABLE") > 0
        assert first.rstrip().endswith(";")
        assert pop_ids(driver, amount=1) == ids
