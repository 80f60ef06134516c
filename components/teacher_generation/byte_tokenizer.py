"""A tokenizer of bytes, for an episode whose model has a tokenizer of its own.

The episode loop carries ids. Of a foreign model nobody here knows them, and nothing reads them: they only have to be
some tokenizer's.
"""

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from components.avatar.agent.chat import END, START


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """ChatML over UTF-8 bytes. Not safe to share between threads (transformers switches its state at each call)."""
    alphabet = {sign: number for number, sign in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in (START, END)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=START, eos_token=END, pad_token=END)
