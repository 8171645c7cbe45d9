"""Vectors and term postings that compare papers with each other."""

from django.db import models

from webapp.papers.models import Paper


class PaperVector(models.Model):
    """A paper's title and abstract as an encoder's vector: int8 [width]."""

    paper = models.OneToOneField(
        Paper, on_delete=models.CASCADE, primary_key=True, related_name="vector"
    )
    encoder = models.CharField(max_length=200)  # its name; another encoder's vectors are made anew
    version = models.PositiveSmallIntegerField()  # of the paper
    values = models.BinaryField()


class TermPostings(models.Model):
    """Papers of a block that have a term among their strongest, the heaviest first.

    `values` holds each paper's place in its block, uint16 [papers], and then its weight,
    uint8 [papers].
    """

    pk = models.CompositePrimaryKey("term", "block")
    term = models.CharField(max_length=60)
    block = models.PositiveIntegerField()
    values = models.BinaryField()


class PostingsBlock(models.Model):
    """A block of papers, by primary key, whose postings are stored."""

    block = models.PositiveIntegerField(primary_key=True)
    until = models.PositiveIntegerField()  # the last key that they know
    vocabulary = models.CharField(max_length=64)  # made with another one, they are made anew
