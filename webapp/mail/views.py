"""A reader's mail: the address, the subscriptions, and the one-click unsubscribe."""

from collections.abc import Mapping
from datetime import timedelta
from smtplib import SMTPException
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.core import signing
from django.core.mail import send_mail
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from webapp.core import connections
from webapp.core.input import number_in
from webapp.core.limits import LimitReachedError, mailbox_key, spend, visitor
from webapp.digests.models import Profile
from webapp.mail import deliver
from webapp.mail.deliver import UNSUBSCRIBE
from webapp.mail.models import Delivery
from webapp.papers.days import eastern_date, now
from webapp.papers.queries import dates
from webapp.readers.links import page_address
from webapp.ui.pages import for_readers

MAX_DELIVERIES = 30  # deliveries of one reader
CONFIRM, LIFETIME = "mail address", 24 * 60 * 60  # what a token is good for, and its seconds


class DeliveryForm(forms.Form):
    """A feed or a search, and how often."""

    profile = forms.ModelChoiceField(
        Profile.objects.none(), required=False, label="Feed", empty_label="–"
    )
    q = forms.CharField(
        max_length=400,
        required=False,
        label="Or a search",
        help_text="As on the search page: words, author:“Jane Doe”, method:sparse_attention.",
    )
    frequency = forms.ChoiceField(choices=Delivery.Frequency.choices)

    def __init__(
        self, reader: User, data: Mapping[str, Any] | None, initial: dict[str, Any]
    ) -> None:
        super().__init__(data, initial=initial, label_suffix="")
        self.mine = Delivery.objects.filter(reader=reader)
        mine = Profile.objects.filter(Q(is_site=True) | Q(owner=reader))
        self.fields["profile"].queryset = mine  # type: ignore[attr-defined]

    def clean(self) -> dict[str, object]:
        """Accept a feed or a search, not both."""
        data = self.cleaned_data
        q = data.get("q", "").strip()
        if bool(data.get("profile")) == bool(q):
            raise forms.ValidationError(gettext("Choose a feed or write a search, not both."))
        others = self.mine.exclude(profile=data["profile"], q=q)
        if others.count() >= MAX_DELIVERIES:
            most = gettext(
                "You can get at most %(most)d feeds and searches by mail. Unsubscribe from one "
                "first."
            )
            raise forms.ValidationError(most % {"most": MAX_DELIVERIES})
        return data


@for_readers("GET", "HEAD", "POST")
def account_mail(request: HttpRequest, reader: User) -> HttpResponse:
    """List a reader's subscriptions; add or end one."""
    mine = Delivery.objects.filter(reader=reader).select_related("profile")
    initial = request.GET.dict()
    if category := initial.get("category"):  # of the search page, which has a field for it
        initial["q"] = f"{initial.get('q', '')} cat:{category}".strip()
    form = DeliveryForm(reader, request.POST or None, initial=initial)
    if "address" in request.POST:
        _ask_to_confirm(request, reader, request.POST["address"].strip())
    elif "end" in request.POST:
        ended = mine.filter(pk=number_in(request.POST["end"])).delete()[0]
        messages.success(request, "Unsubscribed." if ended else "You had already unsubscribed.")
    elif form.is_bound and form.is_valid():
        data, today = form.cleaned_data, eastern_date(now())
        chosen = {"frequency": data["frequency"]}
        Delivery.objects.update_or_create(  # not `mine`: PostgreSQL locks no outer join
            reader=reader,
            profile=data["profile"],
            q=data["q"].strip(),
            defaults=chosen,
            create_defaults=chosen
            | {
                "sent_until": max(dates(1), default=today),
                "looked_on": today if data["frequency"] == "weekly" else today - timedelta(days=1),
            },
        )
        messages.success(request, "Subscribed. You will get a mail when there is something new.")
    else:
        context = {
            "form": form,
            "deliveries": mine,
            "mail_on": connections.mail_host(),
            "connections": connections.PAGE,
        }
        status = 422 if form.is_bound else 200
        return render(request, "mail/account.html", context, status=status)
    return redirect("mail:account")


@for_readers("GET", "HEAD", "POST")
def preview(request: HttpRequest, reader: User, pk: int) -> HttpResponse:
    """The mail that the last complete day makes; POST sends it now, whatever was sent before."""
    delivery = get_object_or_404(Delivery.objects.select_related("profile"), pk=pk, reader=reader)
    if request.method == "POST" and reader.email and connections.mail_host():
        spend("mails now", visitor(request))
        try:
            is_sent = deliver.send_now(delivery)
        except (SMTPException, OSError) as error:
            failed = gettext("The mail could not be sent: %(error)s")
            messages.error(request, failed % {"error": error})
        else:
            sent = gettext("Mailed to %(address)s.") % {"address": reader.email}
            messages.success(request, sent if is_sent else gettext("There is nothing to mail yet."))
        return redirect("mail:preview", pk)
    day, lines = deliver.preview(delivery)
    context = {"delivery": delivery, "day": day, "lines": lines, "mail_on": connections.mail_host()}
    return render(request, "mail/preview.html", context)


def _ask_to_confirm(request: HttpRequest, reader: User, address: str) -> None:
    """Mail a link that confirms the address, so that nobody can subscribe another person's."""
    try:
        forms.EmailField().clean(address)
    except forms.ValidationError as error:
        messages.error(request, f"{address[:80]!r}: {' '.join(error.messages)}")
        return
    try:
        spend("confirmations", visitor(request))
        spend("mailbox", mailbox_key(address))
    except LimitReachedError as error:
        messages.error(request, str(error))
        return
    token = signing.dumps([reader.pk, address], salt=CONFIRM)
    link = page_address("mail:confirm", token)
    try:
        send_mail(
            gettext("Confirm your address"),
            render_to_string("mail/confirm.txt", {"link": link}),
            None,
            [address],
        )
        mailed = gettext("A link to confirm the address was mailed to %(address)s.")
        messages.success(request, mailed % {"address": address})
    except OSError as error:
        failed = gettext("The mail could not be sent: %(error)s")
        messages.error(request, failed % {"error": error})


@never_cache
@for_readers("GET", "HEAD", "POST")
def confirm(request: HttpRequest, reader: User, token: str) -> HttpResponse:
    """Confirm an address by the mailed link; only its reader can."""
    try:
        reader_id, address = signing.loads(token, salt=CONFIRM, max_age=LIFETIME)
    except signing.BadSignature:
        raise Http404("This link is no longer valid.") from None
    if reader_id != reader.pk:
        raise Http404("This link belongs to another reader.")
    if request.method == "POST":
        User.objects.filter(pk=reader.pk).update(email=address)
        confirmed = gettext("Mail goes to %(address)s.")
        messages.success(request, confirmed % {"address": address})
        return redirect("mail:account")
    return render(request, "mail/confirm.html", {"address": address})


@csrf_exempt  # RFC 8058: the reader's mail program posts it, without a cookie
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def unsubscribe(request: HttpRequest, token: str) -> HttpResponse:
    """A button on GET; POST unsubscribes: a mail scanner that follows links changes nothing."""
    try:
        pk = signing.loads(token, salt=UNSUBSCRIBE)
    except signing.BadSignature:
        raise Http404("This link is not valid.") from None
    delivery = Delivery.objects.filter(pk=pk).select_related("profile").first()
    name = delivery.name if delivery else ""
    if request.method == "POST" and delivery:
        delivery.delete()
    context = {"name": name, "ended": request.method == "POST" or not delivery}
    return render(request, "mail/unsubscribe.html", context)
