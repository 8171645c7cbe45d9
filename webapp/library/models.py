"""A reader's library: saved papers, marks, lists, and texts to learn from."""

from django.contrib.auth.models import User
from django.db import models
from django.db.models import UniqueConstraint
from django.db.models.signals import post_save
from django.dispatch import receiver

from webapp.papers.models import Paper

MAX_LISTS = 100  # of a reader


class Star(models.Model):
    """A paper a reader keeps."""

    reader = models.ForeignKey(User, on_delete=models.CASCADE, related_name="stars")
    paper = models.ForeignKey(Paper, on_delete=models.CASCADE, related_name="stars")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "digests_star"  # where it was made
        ordering = ("-created_at",)
        constraints = [UniqueConstraint(fields=["reader", "paper"], name="starred_once")]


class LibraryEntry(models.Model):
    """One reader's marks on one paper: read, not for me, a note."""

    reader = models.ForeignKey(User, on_delete=models.CASCADE, related_name="library")
    paper = models.ForeignKey(Paper, on_delete=models.CASCADE, related_name="library_entries")
    read_at = models.DateTimeField(null=True, blank=True)
    not_for_me = models.BooleanField(default=False)
    note = models.TextField(blank=True)  # Markdown, as written
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("-changed_at", "-pk")
        verbose_name_plural = "library entries"
        constraints = [UniqueConstraint(fields=["reader", "paper"], name="one_entry_a_reader")]


# A paper is either saved or not for its reader: the later one wins.
@receiver(post_save, sender=LibraryEntry)
def _unsave_not_for_me(instance: LibraryEntry, **_: object) -> None:
    if instance.not_for_me:
        Star.objects.filter(reader=instance.reader_id, paper=instance.paper_id).delete()


@receiver(post_save, sender=Star)
def _take_back_not_for_me(instance: Star, **_: object) -> None:
    entries = LibraryEntry.objects.filter(reader=instance.reader_id, paper=instance.paper_id)
    entries.update(not_for_me=False)


class ReadingList(models.Model):
    """A named list of papers."""

    reader = models.ForeignKey(User, on_delete=models.CASCADE, related_name="reading_lists")
    name = models.CharField(max_length=80)
    papers = models.ManyToManyField(Paper, related_name="reading_lists")
    share_key = models.CharField(max_length=32, blank=True, db_index=True)  # while it is shared
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("name",)
        constraints = [
            UniqueConstraint(fields=["reader", "name"], name="a_list_once_a_reader"),
            UniqueConstraint(
                fields=["share_key"], condition=~models.Q(share_key=""), name="one_list_an_address"
            ),
        ]


class ZoteroReading(models.Model):
    """State of a reader's Zotero library: the collections to learn from, and the version read."""

    reader = models.OneToOneField(User, on_delete=models.CASCADE, related_name="zotero_reading")
    version = models.PositiveBigIntegerField(default=0)  # of the library, as it was read
    collections = models.JSONField(default=list)  # [{"key", "name", "parent"}]
    include = models.JSONField(default=list)  # keys; none: the whole library
    exclude = models.JSONField(default=list)  # keys
    read_at = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True)  # why the last reading failed


class ZoteroItem(models.Model):
    """A paper of a reader's Zotero library."""

    reader = models.ForeignKey(User, on_delete=models.CASCADE, related_name="zotero_items")
    key = models.CharField(max_length=8)
    title = models.TextField()
    abstract = models.TextField(blank=True)
    arxiv_id = models.CharField(max_length=32, blank=True, db_index=True)
    added_at = models.DateTimeField()
    collections = models.JSONField(default=list)  # keys of those it is in

    class Meta:
        ordering = ("-added_at", "-pk")
        constraints = [UniqueConstraint(fields=["reader", "key"], name="a_zotero_item_once")]


class LikedText(models.Model):
    """The text of a liked paper that this site lacks, to learn from."""

    reader = models.ForeignKey(User, on_delete=models.CASCADE, related_name="liked_texts")
    title = models.TextField()
    abstract = models.TextField(blank=True)

    class Meta:
        constraints = [UniqueConstraint(fields=["reader", "title"], name="liked_once_a_reader")]
