"""Metrics for Prometheus, counted in the database at each request."""

from collections.abc import Iterator

from django.db.models import Count
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from webapp.catalog.linking import relinking
from webapp.digests.models import Digest, Profile
from webapp.operate.failures import failing
from webapp.operate.heartbeats import ages
from webapp.operate.models import Heartbeat
from webapp.papers.models import Listing, Paper


class Metrics(Collector):
    """All metrics of the site."""

    def collect(self) -> Iterator[Metric]:
        """The metrics, counted now."""
        yield GaugeMetricFamily("assay_papers", "Papers known.", value=Paper.objects.count())
        yield GaugeMetricFamily("assay_profiles", "Profiles.", value=Profile.objects.count())
        yield GaugeMetricFamily("assay_digests", "Digests built.", value=Digest.objects.count())
        listings = GaugeMetricFamily("assay_listings", "Batches by state.", labels=["state"])
        counted = Listing.objects.order_by().values_list("state").annotate(Count("pk"))
        counts: dict[str, int] = dict(counted)
        for state in Listing.State.values:
            listings.add_metric([state], counts.get(state, 0))
        yield listings
        latest = Listing.objects.order_by("-polled_at").values_list("polled_at", flat=True).first()
        if latest:
            yield GaugeMetricFamily(
                "assay_last_poll_timestamp_seconds",
                "When arXiv was last asked.",
                value=latest.timestamp(),
            )
        done, total = relinking() or (0, 0)
        yield GaugeMetricFamily(
            "assay_papers_to_relink",
            "Papers that wait to be linked to methods that have changed.",
            value=total - done,
        )
        age = GaugeMetricFamily(
            "assay_heartbeat_age_seconds",
            "Since the beat or a queue answered.",
            labels=["kind", "name"],
        )
        for kind in Heartbeat.Kind:
            for name, seconds in ages(kind).items():
                age.add_metric([kind.value, name], seconds)
        yield age
        failures = GaugeMetricFamily(
            "assay_task_failing_since_timestamp_seconds",
            "Tasks that raised when they last ran, since when they do.",
            labels=["task"],
        )
        for failure in failing():
            failures.add_metric([failure.task], failure.since.timestamp())
        yield failures
