"""The tables of version 0.1.0."""

import django.db.models.deletion
import webapp.digests.models
import webapp.digests.packed
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('digests', '0001_initial'),
        ('digests', '0002_best_since'),
        ('digests', '0002_rarity_and_further_matches'),
        ('digests', '0003_learned_model'),
        ('digests', '0003_private_profiles'),
        ('digests', '0004_digest_inputs'),
        ('digests', '0004_star_leaves'),
        ('digests', '0005_learning_is_a_ranking'),
        ('digests', '0006_also_mentioned'),
        ('digests', '0007_daytobuild'),
        ('digests', '0008_gist_once'),
        ('digests', '0009_untouched_defaults'),
        ('digests', '0010_marks'),
        ('digests', '0011_html_once'),
        ('digests', '0012_packed_rows'),
        ('digests', '0013_packed_examples'),
    ]

    dependencies = [
        ('papers', '0001_squashed_0012_fenced_lease'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='DayToBuild',
            fields=[
                ('date', models.DateField(primary_key=True, serialize=False)),
                ('asked_at', models.DateTimeField()),
            ],
            options={
                'verbose_name_plural': 'days to build',
            },
        ),
        migrations.CreateModel(
            name='Digest',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('date', models.DateField(db_index=True)),
                ('considered', models.PositiveIntegerField(default=0)),
                ('matched', models.PositiveIntegerField(default=0)),
                ('liked', models.PositiveIntegerField(default=0)),
                ('fingerprint', models.CharField(max_length=64)),
                ('inputs', models.CharField(default='', max_length=64)),
                ('changed_at', models.DateTimeField()),
                ('is_sample', models.BooleanField(default=False)),
            ],
            options={
                'ordering': ('-date',),
            },
        ),
        migrations.CreateModel(
            name='Chips',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('chips', models.JSONField()),
                ('paper', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='chips', to='papers.paper')),
            ],
        ),
        migrations.CreateModel(
            name='FurtherMatches',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('rows', webapp.digests.packed.PackedJSONField(default=list)),
                ('digest', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='further', to='digests.digest')),
            ],
            options={
                'verbose_name_plural': 'further matches',
            },
        ),
        migrations.CreateModel(
            name='Profile',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('slug', models.SlugField(max_length=64, unique=True)),
                ('name', models.CharField(max_length=80)),
                ('is_site', models.BooleanField(default=False)),
                ('is_published', models.BooleanField(default=False)),
                ('feed_key', models.CharField(default=webapp.digests.models.new_feed_key, max_length=32)),
                ('categories', models.JSONField(default=list)),
                ('keywords', models.JSONField(default=list)),
                ('counted_on', models.DateField(blank=True, null=True)),
                ('exclude', models.JSONField(default=list)),
                ('announce_types', models.JSONField(default=list)),
                ('matching', models.CharField(choices=[('rarity', 'what a paper is about, rare keywords first'), ('token', 'words and phrases, points as written'), ('substring', 'substrings, exactly as the seed bot')], default='token', max_length=9)),
                ('ranking', models.CharField(choices=[('rules', 'the rules below'), ('both', 'the rules and what is learned from what I keep'), ('learned', 'what is learned from what I keep')], default='rules', max_length=7)),
                ('min_score', models.FloatField(default=0.0)),
                ('min_share', models.FloatField(default=0.0)),
                ('learn_from', models.CharField(blank=True, max_length=60)),
                ('size', models.PositiveSmallIntegerField(default=30)),
                ('language', models.CharField(choices=[('en', 'English'), ('zh', '中文')], default='en', max_length=2)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('owner', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='profiles', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ('-is_site', 'name'),
            },
        ),
        migrations.AddField(
            model_name='digest',
            name='profile',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='digests', to='digests.profile'),
        ),
        migrations.CreateModel(
            name='BestSince',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('since', models.DateField()),
                ('asked_at', models.DateTimeField()),
                ('heard_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('total', models.PositiveIntegerField(default=0)),
                ('scored', models.PositiveIntegerField(default=0)),
                ('matched', models.PositiveIntegerField(default=0)),
                ('reading_seconds', models.FloatField(default=0.0)),
                ('scoring_seconds', models.FloatField(default=0.0)),
                ('rows', models.JSONField(default=list)),
                ('profile', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='best_since', to='digests.profile')),
            ],
            options={
                'verbose_name_plural': 'best since',
            },
        ),
        migrations.CreateModel(
            name='DigestEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('rank', models.PositiveSmallIntegerField()),
                ('score', models.FloatField()),
                ('also_mentioned', models.BooleanField(default=False)),
                ('announce_type', models.CharField(max_length=13)),
                ('version', models.PositiveSmallIntegerField()),
                ('matches', models.JSONField(default=list)),
                ('marks', models.JSONField(default=dict)),
                ('chips', models.JSONField(default=list)),
                ('changed_at', models.DateTimeField()),
                ('digest', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='entries', to='digests.digest')),
                ('paper', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='digest_entries', to='papers.paper')),
            ],
            options={
                'ordering': ('rank',),
                'constraints': [models.UniqueConstraint(fields=('digest', 'paper'), name='a_paper_once_a_digest'), models.UniqueConstraint(fields=('digest', 'rank'), name='a_rank_once_a_digest')],
            },
        ),
        migrations.CreateModel(
            name='LearnedModel',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('source', models.CharField(blank=True, max_length=60)),
                ('intercept', models.FloatField()),
                ('weights', models.JSONField()),
                ('reference', models.JSONField(default=list)),
                ('examples', models.JSONField(default=dict)),
                ('liked', models.PositiveIntegerField()),
                ('disliked', models.PositiveIntegerField()),
                ('fingerprint', models.CharField(max_length=64)),
                ('trained_at', models.DateTimeField()),
                ('reader', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='learned_models', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('reader', 'source'), name='one_model_a_source')],
            },
        ),
        migrations.AddConstraint(
            model_name='profile',
            constraint=models.UniqueConstraint(condition=models.Q(('is_site', True)), fields=('is_site',), name='one_site_profile'),
        ),
        migrations.AddConstraint(
            model_name='digest',
            constraint=models.UniqueConstraint(fields=('profile', 'date'), name='one_digest_a_day'),
        ),
    ]
