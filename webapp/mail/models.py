"""Mail subscriptions, and the days that each has been sent."""

from django.contrib.auth.models import User
from django.db import models
from django.utils.translation import gettext_lazy as _

from assay_common.text import one_line
from webapp.core.leases import Leased
from webapp.digests.models import Profile


class Delivery(Leased):
    """A profile's digest, or what a search finds, mailed to a reader daily or weekly."""

    class Frequency(models.TextChoices):
        DAILY = "daily", _("every day")
        WEEKLY = "weekly", _("once a week")

    reader = models.ForeignKey(User, on_delete=models.CASCADE, related_name="deliveries")
    profile = models.ForeignKey(Profile, null=True, blank=True, on_delete=models.CASCADE)
    q = models.CharField(max_length=400, blank=True)  # of a search, where there is no profile
    frequency = models.CharField(max_length=6, choices=Frequency.choices)
    sent_until = models.DateField()  # the last day announced that was mailed or looked at
    looked_on = models.DateField()  # the day of the last mail or look

    class Meta:
        ordering = ("pk",)
        verbose_name_plural = "deliveries"
        constraints = [
            models.UniqueConstraint(fields=["reader", "profile", "q"], name="one_delivery_each"),
            models.UniqueConstraint(  # a NULL is like no other NULL
                fields=["reader", "q"],
                condition=models.Q(profile=None),
                name="one_delivery_a_search",
            ),
            models.CheckConstraint(
                condition=models.Q(profile__isnull=False, q="")
                | (models.Q(profile=None) & ~models.Q(q="")),
                name="a_feed_or_a_search",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """Name of the subscription, as a subject says it."""
        return self.profile.name if self.profile else f"“{one_line(self.q)}”"
