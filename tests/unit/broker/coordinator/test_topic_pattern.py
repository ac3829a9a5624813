"""Patterns of topic names: RE2's syntax, whole matches, linear time."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.broker.coordinator.pattern_syntax import ALPHABET, PatternError
from odradek.broker.coordinator.topic_pattern import TopicPattern, matches_of

NAMES = ["foo", "foobar", "foo-12", "a", "ab", "abc", "b", "bb", "A", "a.b", "x_y", "1", "-"]


def matched(pattern: str) -> str:
    return " ".join(sorted(matches_of([pattern], NAMES)[pattern]))


PATTERNS = {
    "": "",
    "foo": "foo",
    "foo.*": "foo foo-12 foobar",
    "foo|b+": "b bb foo",
    "(a|b){2}": "ab bb",
    "[a-c]{2,}": "ab abc bb",
    "a?b?": "a ab b",
    "a{1}b{0,1}": "a ab",
    "a{,3}": "",
    r"a\.b": "a.b",
    r"a\x2eb|\x{61}|\141b": "a a.b ab",
    r"\d|\W": "- 1",
    r"\D\D\D": "a.b abc foo x_y",
    r"[^\d\s]": "- A a b",
    r"[[:alpha:]][[:punct:]]\w": "a.b x_y",
    "[[:^alpha:]]": "- 1",
    "[]a]": "a",
    "[a-]": "- a",
    r"[\--\.]": "-",
    r"\pL|\p{Nd}": "1 A a b",
    r"\PL|\p{^L}": "- 1",
    r"\p{Latin}": "A a b",
    "(?i)A|FOO": "A a foo",
    "(?i:a)b|(?-i)B": "ab",
    "(?i)[A-C]": "A a b",
    "(?P<one>a)(?<two>b)": "ab",
    "(?:a)(?:b)?": "a ab",
    r"\Qa.b\E": "a.b",
    r"\Qa.b": "a.b",
    "^a$": "a",
    r"\Aa\z": "a",
    "a^b": "",
    r"foo\b.*": "foo foo-12",
    r"foo\B.*": "foobar",
    "a*?b+?": "ab b bb",
    "(a*)*": "a",
    "(|a)+": "a",
    "^*a": "a",
    "é|a": "a",
    r"[é-ü]": "",
    r"\a|\n|b": "b",
    ".": "- 1 A a b",
    r"\C": "- 1 A a b",
    "(?s).(?m)$": "- 1 A a b",
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_matches_whole_names(pattern: str) -> None:
    assert matched(pattern) == PATTERNS[pattern]


BAD = {
    "a**": "invalid nested repetition operator",
    "a++": "invalid nested repetition operator",
    "a{2}{3}": "invalid nested repetition operator",
    "*a": "missing argument to repetition operator",
    "(+)": "missing argument to repetition operator",
    "a|*": "missing argument to repetition operator",
    "a{1001}": "invalid repeat count",
    "a{3,2}": "invalid repeat count",
    "(a": "missing closing )",
    "a)": "unexpected )",
    "[a": "missing closing ]",
    "[a-": "missing closing ]",
    "[b-a]": "invalid character class range",
    "[[:nope:]]": "invalid character class range",
    r"\p{Nope}": "invalid character class range",
    r"\1": "invalid escape sequence",
    r"\y": "invalid escape sequence",
    r"\x{110000}": "invalid escape sequence",
    "\\": "trailing backslash at end of expression",
    "[\\": "trailing backslash at end of expression",
    "(?=a)": "invalid or unsupported Perl syntax",
    "(?<!a)": "invalid or unsupported Perl syntax",
    "(?)": "invalid or unsupported Perl syntax",
    "(?P<a>x)(?P<a>y)": "duplicate capture group name",
    "(" * 1001 + ")" * 1001: "expression nests too deeply",
    "((a{100}){100}){100}": "expression too large",
    "(((){1000}){1000}){1000}": "expression too large",
}


@pytest.mark.parametrize("pattern", BAD, ids=[pattern[:20] for pattern in BAD])
def test_what_is_no_pattern_is_refused_with_a_reason(pattern: str) -> None:
    with pytest.raises(PatternError) as caught:
        TopicPattern(pattern)
    assert str(caught.value) == BAD[pattern]


def test_a_pattern_that_backtracking_would_never_finish_is_matched_at_once() -> None:
    assert not TopicPattern("(a+)+(a+)+(a+)+b").matches("a" * 249)
    assert TopicPattern("(a|a)*(a|aa)*").matches("a" * 249)
    assert TopicPattern("(.*a.*){20}").matches("ab" * 100)


def test_the_states_that_are_remembered_are_bounded() -> None:
    pattern = TopicPattern("(a|b)*a(a|b){14}")
    for number in range(1 << 12):
        name = f"{number:012b}".replace("0", "a").replace("1", "b")
        assert not pattern.matches(name)
    assert len(pattern._known) <= 4000
    assert pattern.matches("b" * 5 + "a" + "b" * 14)


def test_a_pattern_of_another_coordinator_that_is_not_known_matches_nothing() -> None:
    assert matches_of(["(?=a)", "a"], NAMES) == {"(?=a)": frozenset(), "a": frozenset("a")}


# What Python's expressions mean in the same way.
pieces = st.sampled_from(
    [
        *"ab01.-_",
        r"\.",
        r"\d",
        r"\w",
        r"\D",
        r"\W",
        "[ab]",
        "[^a]",
        "[0-9a]",
        r"\b",
        r"\B",
        "^",
        "$",
    ]
)
trees = st.recursive(
    pieces,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        ),
    ),
    max_leaves=8,
)
names = st.text(st.sampled_from("ab01.-_"), min_size=1, max_size=8)


@given(trees, st.lists(names, min_size=1, max_size=10))
def test_patterns_mean_what_they_mean_in_python(pattern: str, some_names: list[str]) -> None:
    ours = TopicPattern(pattern)
    theirs = re.compile(pattern, re.ASCII)
    for name in some_names:
        assert ours.matches(name) == (theirs.fullmatch(name) is not None)


signs = st.sampled_from("ab*+?{}()[]|\\^$.-1,Qx:=")


@given(st.one_of(st.text(max_size=12), st.text(signs, max_size=12)), names)
def test_any_text_is_a_pattern_or_refused(text: str, name: str) -> None:
    try:
        pattern = TopicPattern(text)
    except PatternError:
        return
    pattern.matches(name)


def test_the_alphabet_is_that_of_topic_names() -> None:
    assert len(ALPHABET) == 65
