//! An embedder that needs nothing: a vector for each token of a vocabulary, and the mean of a text's.
