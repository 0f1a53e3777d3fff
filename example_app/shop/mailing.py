"""Jobs that send mail, no faster than the mail provider takes it."""

from __future__ import annotations

from collections.abc import Sequence

from flask_jobs import Job, Limit, Middleware, RateLimited

from ..extensions import jobs


class MailingJob(Job):
    """A job that sends one mail. When the minute is full it waits for its own turn, which costs it no attempt."""

    can_wait = False  # true for what nobody waits for

    def middleware(self) -> Sequence[Middleware]:
        """Ask the limiter first."""
        return [RateLimited("mail")]


@jobs.limiter("mail")
def mail_limits(job: MailingJob) -> list[Limit]:
    """The provider takes 30 mails a minute; what can wait leaves a third of them to the rest."""
    everything = Limit.per_minute(30)
    return [everything, Limit.per_minute(20).by("can wait")] if job.can_wait else [everything]
