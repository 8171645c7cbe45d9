"""TF-IDF and linear models, without scikit-learn."""
