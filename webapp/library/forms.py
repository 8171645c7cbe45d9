"""The forms of a reader's library."""

import re

from django import forms
from django.utils.translation import gettext

from webapp.core.addresses import zotero_key, zotero_library
from webapp.core.encodings import EncodingError, decoded

MAX_NOTE = 20_000


class EntryForm(forms.Form):
    """A note and a new list for one paper."""

    note = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 5}),
        max_length=MAX_NOTE,
        required=False,
        help_text="Markdown: **bold**, lists, links, `code`. Nobody else sees it.",
    )
    new_list = forms.CharField(max_length=80, required=False, label="New list")


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
            try:
                read = decoded(file.read())
            except EncodingError as error:
                self.add_error("file", str(error))
            else:
                pasted = self.cleaned_data.get("text", "")
                self.cleaned_data["text"] = f"{pasted}\n{read}" if pasted else read
        if not self.cleaned_data.get("text", "").strip() and not self.errors:
            self.add_error("text", gettext("Paste something, or choose a file."))
        return self.cleaned_data


class ZoteroForm(forms.Form):
    """A Zotero library, and a key to read it."""

    library = forms.CharField(
        max_length=300,
        help_text="Your library’s address or userID (zotero.org/settings/security), or a group’s "
        "address: users/123456, https://www.zotero.org/groups/123456.",
    )
    key = forms.CharField(
        max_length=300,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="Create a key with read access at zotero.org/settings/keys/new. "
        "It is not shown again.",
    )

    def clean_library(self) -> str:
        """The library as Zotero's API names it."""
        try:
            return zotero_library(self.cleaned_data["library"])
        except ValueError as error:
            right = gettext("Write users/123456, groups/123456 or a group’s address.")
            raise forms.ValidationError(right) from error

    def clean_key(self) -> str:
        """The key without what was copied around it."""
        key = zotero_key(self.cleaned_data["key"])
        if not re.fullmatch("[A-Za-z0-9]{8,64}", key):
            raise forms.ValidationError(gettext("A key has only letters and digits."))
        return key
