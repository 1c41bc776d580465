"""acctax: what a quantization really buys once speculative decoding is on."""
