"""The words that tell an outcome from a setting, in folded text (lower case, no inner hyphens)."""

from __future__ import annotations

import re


def one_of(words: str) -> str:
    """A pattern for any of the words, which blanks part; `_` stands for a blank inside of one."""
    return "(?:" + "|".join(word.replace("_", " ") for word in words.split()) + ")"


# Beginnings of words that report a result.
RESULT = re.compile(
    r"\b"
    + one_of("""
        achiev reach attain improv increas reduc decreas lower outperform surpass exceed boost yield
        obtain gain result demonstrat show find found reveal observ accelerat speed faster slower
        higher fewer less more better worse sav drop fall fell ris rose grow retain maintain
        preserv match recover require consum scor accura perform evaluat experiment deliver cut
        enhanc advanc rank error latency degrad los[st] correlat agree detect identif predict
        account cost takes took provid enabl solv success win beat run operat compress shrink halv
        narrow clos rais expand elevat exhibit register report record estimat measur produc generat
        cover comparable complet process lead""")
    + "|提升|提高|降低|减少|达到|加速|优于"
)
# A sentence with one of these speaks of the paper's own work even before "we" or "our" did.
STRONG_RESULT = re.compile(r"\b(?:we\b|our\b|achiev|outperform|attain|surpass)")
# ... but not one of these: "detection tools currently achieve 88 %".
OTHERS_WORK = re.compile(r"\b(?:currently|recent(?:ly)?|existing|today|previous(?:ly)?|prior)\b")
OWN_WORK = re.compile(
    r"\b"
    + one_of(r"""
        we our ours here the_proposed propos\w+ introduc\w+ experiments? results evaluations?
        (?:in_)?this_(?:paper|work|study|article|thesis|report|survey) (?:is|are)_presented""")
    + r"\b|我们|本文"
)
CHANGES = re.compile(
    one_of("""
        improv increas ris rose drop reduc decreas fall fell lower grow -> rais boost cut climb
        declin shrink jump gain from""")
)
DATA_DESCRIBED = re.compile(
    r"\b"
    + one_of(r"""
        compris\w+ contain\w+ consists?(?=_of) consisting spanning collected annotated curated
        participants sampled recruited dataset_of corpus_of labell?ed_data""")
    + r"\b"
)
METRIC = one_of(r"""
    accurac(?:y|ies) acc f1 f_?score fmeasure m[ai]cro_?f1 au(?:c|roc|prc|pr) (?:roc|pr)_?auc
    precision recall sensitivity specificity dice dsc m?iou jaccard map ap\d* mar mrr ndcg bleu\d?
    rouge\w* meteor cider chrf\w* comet bertscore bleurt [wcpe]er der psnr (?:ms_?)?ssim lpips r?fid
    kid fvd clip(?:score)? n?r?mse mae mape r2 r\^2 pearson spearman kendall correlations?
    correlation_coefficients? kappa mcc icc plcc srcc perplexity ppl loss errors? error_rates?
    scores? c?index ratio coefficient elo hota a?mota idf1 epe ate rpe hausdorff hd95 chamfer
    similarity agreement success_rate win_rate pass rate divergence cohen'?s?_d nds nll ece brier
    regret competitive_ratio bound exponent average mean median auprc auroc gap difference alpha
    pesq stoi (?:si)?sdr (?:ut)?mos qwk vbench geneval hpsv\d vif qed lddt tm_?score gdt rmsd sr spl
    e?pdms mean_?average_?precision averages bits_?per_?(?:byte|character) x?comet\w*
    (?:min)?[af]de silhouette ari nmi""")
METRIC_WORD = re.compile(rf"(?<![a-z]){METRIC}(?![a-z])")
