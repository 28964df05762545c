"""The words by which a reply announces its choice, in the languages that models answer in."""

from __future__ import annotations

import re


def _any(*words: str) -> str:
    return f"(?:{'|'.join(words)})"


# What an announcement is about: "the correct answer". A bare "option" is none: "option A is tempting".
_ANSWER = _any(
    r"(?:final |correct |right |best |true |only )?answer(?: choice| option| to (?:this|the|your) question)?",
    r"(?:final |correct |right |best )(?:choice|option|solution)",
    r"(?:richtige |korrekte |beste )?(?:antwort|lösung|antwortmöglichkeit)",
    r"(?:juiste |correcte )?antwoord",
    r"(?:rätt |rette |riktige )?svar(?:et)?",
    r"(?:bonne |meilleure )?réponse(?: correcte| exacte| finale)?",
    r"respuesta(?: correcta| final)?",
    r"resposta(?: correta| certa| final)?",
    r"risposta(?: corretta| giusta| esatta| finale)?",
    r"(?:alternativa|opção|opción|opzione|letra)(?: correta| correcta| corretta)",
    r"(?:правильный |верный |окончательный )?ответ",
    r"(?:правильный |верный )вариант(?: ответа)?",
    r"(?:poprawna |prawidłowa )?odpowiedź",
    r"(?:správná )?odpověď",
    r"(?:doğru )?(?:cevap|yanıt)",
    r"đáp án(?: đúng)?",
    r"jawaban(?:nya)?(?: yang benar)?",
    r"(?:정답|답)",
    r"(?:الإجابة|الجواب)(?: الصحيحة| الصحيح)?",
    r"(?:सही )?उत्तर",
)
_VERB = _any(
    "is", "would be", "must be", "should be", "will be", "ist(?: also| daher| somit)?", "lautet", "wäre", "är", "er",
    r"est(?: donc)?(?: la\b| l'|)", r"es(?: la\b|)", r"é(?: a\b|)", r"è(?: la\b|)", "to", "je", "은", "는", "هي", "هو",
    "là", "adalah",
)  # fmt: skip
_IS = rf"(?:\s*{_VERB}(?![A-Za-zÀ-ɏ])\s*:?|\s*[:=—–-]|\s*\n)\s*"

# Japanese and Chinese write without blanks, and need no verb.
_UNSPACED = _any(
    "(?:正しい|最終的な)?(?:答え|回答|解答|正解|選択肢)", "(?:正确|最终|正確|最終)?的?答案", "正确的?选项"
)  # fmt: skip
_IS_UNSPACED = r"\s*(?:は|が|是|为|為|应为|应该是|选|選)?\s*:?\s*"
_CHOOSE_UNSPACED = _any("故选", "应选", "因此选", "所以选", "选择", "選擇", "我选", "应该选", "故選", "选", "選")

ANNOUNCED = re.compile(
    rf"(?<![A-Za-zÀ-ɏ]){_ANSWER}(?![A-Za-zÀ-ɏЀ-ӿ]){_IS}|{_UNSPACED}{_IS_UNSPACED}|{_CHOOSE_UNSPACED}\s*:?\s*",
    re.IGNORECASE,
)

# What may stand between an announcement and its letter: "the answer is clearly option B".
CHOSEN = re.compile(
    r"(?i:(?:clearly|therefore|thus|definitely|simply|the|la|le|die|das|der|o|a|el|il|de|het) |l')?"
    r"(?i:option|choice|letter|answer|statement|buchstabe|antwort|aussage|lettre|la lettre|l'option|proposition|opción"
    r"|letra|opção|alternativa|lettera|opzione|вариант|буква|選択肢|选项|選項|보기|선택지)?"
)

_BARE, _END = r"(?<![A-Za-zÀ-ɏЀ-ӿ0-9_'’])", r"(?![A-Za-zÀ-ɏЀ-ӿ0-9_'’])"
_IS_RIGHT = _any(
    "is (?:the )?(?:most |only |best )?(?:correct|right|accurate|true|best|answer|one)",
    "is the (?:best |correct |right )?(?:answer|choice|option)", "seems (?:correct|right|best)",
    "ist (?:die )?(?:richtig|korrekt|beste)", "stimmt", "est (?:la )?(?:bonne|correcte?|juste|exacte?)",
    "es (?:la )?(?:correcta|respuesta)", "es correct[oa]", "é (?:a )?(?:correta|certa|resposta)",
    "está (?:correcta|correta)", "è (?:la )?(?:corretta|giusta|risposta|esatta)", "är rätt", "is juist",
    "является (?:правильн|верн)", "верен", "верна", "が正解", "が正しい", "が答え", "是正确", "是對", "正确", "이 정답",
    "가 정답", "는 정답",
)  # fmt: skip
_I_CHOOSE = _any(
    "i(?:'d| would|'ll| will)? (?:choose|pick|select|go (?:with|for)|say|opt for|chose)",
    "my (?:pick|guess|choice) is", "i(?: a|')m going with", "ich (?:wähle|nehme|entscheide mich für)",
    "je (?:choisis|prends|dirais)", "elijo", "escolho", "eu escolho", "scelgo", "io scelgo", "(?:я )?выбираю",
    "(?:so )?it(?: i|')s", "(?:it )?must be", "that (?:is|would be)", "therefore,?", "thus,?", "hence,?",
)  # fmt: skip
_THE_OPTION = _any(
    "option ", "choice ", "letter ", "answer ", "die (?:option )?", "la (?:opción )?", "a (?:opção )?", "l'option ",
    "вариант ",
)  # fmt: skip

# "B is correct" (first group), "I choose B" (second group).
APPROVED = re.compile(
    rf"{_BARE}\(?([A-Z])\)?\s*(?i:{_IS_RIGHT})|(?i:{_I_CHOOSE})\s*(?i:{_THE_OPTION})?\(?([A-Z])\)?{_END}"
)

# "..., so D." at the very end.
CONCLUDED = re.compile(
    r"(?i:\b(?:so|hence|thus|therefore|also|daher|donc|así que|quindi|portanto|logo|значит))[,:]?\s+"
    r"\(?([A-Z])\)?\s*[.!]?\s*$"
)

_BECAUSE = (
    "because since as for due which that is and but so with weil da denn ist und aber also parce car puisque est et",
    "mais porque ya pues es y pero pois é e mas perché poiché è ma потому так и но omdat want eftersom fordi",
)
# Words that follow a chosen letter and explain it: "A because ..." is a choice, "A dog ..." is none.
REASONS = frozenset(" ".join(_BECAUSE).split())

_AND = _any(
    ",", "/", "&", r"\+", "、",
    ",?\\s*(?:and|or|und|oder|et|ou|y|o|e|и|или|en|of|och|と|和|或|또는)",
)  # fmt: skip
# Another letter that goes with the first: "A or B", but not "B, A is tempting".
JOINED = re.compile(
    rf"\s*[)\]]?\s*{_AND}\s*(?:also |option )?[(\[]?([A-Z])[)\]]?"
    r"(?=\s*(?:$|[.,;!?)\n]|(?:and|or|und|oder|are|sind|sont|son|são|sono)(?![a-z])|です|。))"
)

_NOT = _any(
    r"\bnot", "n't", "cannot be", "nicht", "kein", r"\bpas", r"\bno es", r"\bnon è", r"\bnon", r"\bnão é", r"\bnão",
    r"\bне", "rather than", "instead of", "statt", "except", "unlike",
)  # fmt: skip
_WRONG = _any(
    "not", "nicht", "pas", "incorrect", "wrong", "false", "falsch", "faux", "falso", "incorrecta?", "tempting",
    "errad[oa]", "sbagliat[oa]",
)  # fmt: skip
NEGATED = re.compile(
    rf"(?i:{_NOT})\s+(?i:option |die |la |a )?\(?[A-Z]\)?(?![A-Za-z0-9'’])"
    rf"|(?<![A-Za-z0-9'’])\(?[A-Z]\)?\s+(?i:is|ist|est|es|é|è)\s+(?i:{_WRONG})"
)
