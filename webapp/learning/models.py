"""What is kept beside a paper to compare it with others."""

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
