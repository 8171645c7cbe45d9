import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('digests', '0001_initial'),
        ('digests', '0002_rarity_and_further_matches'),
        ('digests', '0003_learned_model'),
        ('digests', '0004_digest_inputs'),
    ]

    dependencies = [
        ('papers', '0001_tables'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Profile',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('slug', models.SlugField(max_length=64, unique=True)),
                ('name', models.CharField(max_length=80)),
                ('is_site', models.BooleanField(default=False)),
                ('categories', models.JSONField(default=list)),
                ('keywords', models.JSONField(default=list)),
                ('counted_on', models.DateField(blank=True, null=True)),
                ('exclude', models.JSONField(default=list)),
                ('announce_types', models.JSONField(default=list)),
                ('matching', models.CharField(choices=[('rarity', 'words and phrases, weighted by rarity'), ('token', 'words and phrases, points as written'), ('substring', 'substrings, exactly as the seed bot')], default='token', max_length=9)),
                ('ranking', models.CharField(choices=[('rules', 'the rules below'), ('both', 'the rules and what is learned from what I keep'), ('learned', 'what is learned from what I keep')], default='rules', max_length=7)),
                ('min_score', models.FloatField(default=0.0)),
                ('size', models.PositiveSmallIntegerField(default=30)),
                ('language', models.CharField(choices=[('en', 'English'), ('zh', '中文')], default='en', max_length=2)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('owner', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='profiles', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ('-is_site', 'name'),
                'constraints': [models.UniqueConstraint(condition=models.Q(('is_site', True)), fields=('is_site',), name='one_site_profile')],
            },
        ),
        migrations.CreateModel(
            name='Digest',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('date', models.DateField(db_index=True)),
                ('considered', models.PositiveIntegerField(default=0)),
                ('matched', models.PositiveIntegerField(default=0)),
                ('fingerprint', models.CharField(max_length=64)),
                ('inputs', models.CharField(default='', max_length=64)),
                ('changed_at', models.DateTimeField()),
                ('is_sample', models.BooleanField(default=False)),
                ('profile', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='digests', to='digests.profile')),
            ],
            options={
                'ordering': ('-date',),
                'constraints': [models.UniqueConstraint(fields=('profile', 'date'), name='one_digest_a_day')],
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
                ('rows', models.JSONField(default=list)),
                ('digest', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='further', to='digests.digest')),
            ],
            options={
                'verbose_name_plural': 'further matches',
            },
        ),
        migrations.CreateModel(
            name='LearnedModel',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('intercept', models.FloatField()),
                ('weights', models.JSONField()),
                ('liked', models.PositiveIntegerField()),
                ('disliked', models.PositiveIntegerField()),
                ('fingerprint', models.CharField(max_length=64)),
                ('trained_at', models.DateTimeField()),
                ('reader', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='learned_model', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='Star',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('paper', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='stars', to='papers.paper')),
                ('reader', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='stars', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ('-created_at',),
                'constraints': [models.UniqueConstraint(fields=('reader', 'paper'), name='starred_once')],
            },
        ),
        migrations.CreateModel(
            name='DigestEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('rank', models.PositiveSmallIntegerField()),
                ('score', models.FloatField()),
                ('announce_type', models.CharField(max_length=13)),
                ('version', models.PositiveSmallIntegerField()),
                ('matches', models.JSONField(default=list)),
                ('title_html', models.TextField()),
                ('abstract_html', models.TextField()),
                ('gist', models.TextField(blank=True)),
                ('gist_html', models.TextField(blank=True)),
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
            name='Gist',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('language', models.CharField(choices=[('en', 'English'), ('zh', '中文')], max_length=2)),
                ('text', models.TextField()),
                ('html', models.TextField()),
                ('details', models.TextField(blank=True)),
                ('paper', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='gists', to='papers.paper')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('paper', 'language'), name='one_gist_a_language')],
            },
        ),
    ]
