"""The forms of a reader's library."""

from django import forms
from django.utils.translation import gettext, gettext_lazy

from webapp.library.references import decoded

MAX_NOTE, MAX_TAGS, MAX_TAG = 20_000, 20, 40


class EntryForm(forms.Form):
    """A note, tags and a new list for one paper."""

    note = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 5}),
        max_length=MAX_NOTE,
        required=False,
        help_text="Markdown: **bold**, lists, links, `code`. Nobody else sees it.",
    )
    tags = forms.CharField(max_length=400, required=False, help_text="Separated by commas.")
    new_list = forms.CharField(max_length=80, required=False, label="New list")

    def clean_tags(self) -> list[str]:
        """The tags without duplicates, in the order given."""
        given = (" ".join(tag.split()) for tag in self.cleaned_data["tags"].split(","))
        tags = list(dict.fromkeys(tag[:MAX_TAG] for tag in given if tag))
        if len(tags) > MAX_TAGS:
            raise forms.ValidationError(gettext("At most %(most)d tags.") % {"most": MAX_TAGS})
        return tags


class ImportForm(forms.Form):
    """Liked papers, pasted or as a file."""

    text = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 8}),
        max_length=2_000_000,
        required=False,
        label="arXiv ids, BibTeX, RIS or CSL-JSON",
    )
    file = forms.FileField(required=False, label="Or a file exported from Zotero")

    def clean(self) -> dict[str, object]:
        """Append the file to the text."""
        file = self.cleaned_data.get("file")
        if file and file.size > 2_000_000:
            self.add_error("file", gettext("The file is larger than 2 MB."))
        elif file:
            self.cleaned_data["text"] += "\n" * bool(self.cleaned_data["text"])
            self.cleaned_data["text"] += decoded(file.read())
        if not self.cleaned_data.get("text", "").strip() and not self.errors:
            self.add_error("text", gettext("Paste something, or choose a file."))
        return self.cleaned_data


class ZoteroForm(forms.Form):
    """A Zotero library, and a key to write to it."""

    library = forms.RegexField(
        r"^(users|groups)/[0-9]{1,12}$",
        help_text="users/123456 (your userID, at zotero.org/settings/security) or groups/123456.",
        error_messages={"invalid": gettext_lazy("Write users/ or groups/ followed by the number.")},
    )
    key = forms.RegexField(
        r"^[A-Za-z0-9]{8,64}$",
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="Create one with write access at zotero.org/settings/keys/new. Not shown again.",
        error_messages={"invalid": gettext_lazy("A key has only letters and digits.")},
    )
