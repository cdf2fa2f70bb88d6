"""What German needs beyond its stemmer: compounds taken apart at common last parts, and verbs without their -t.

A small table, not a dictionary: a compound whose last part is not in it stays whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

_COMMON = """
abend abteilung alarm amt angebot anlage anruf anzug apparat arbeit arzt ausbildung ausflug ausstellung auto bahn
bahnhof balkon band bank batterie bau bauer baum beruf besuch bett bild blatt blume boden boot brief brot bruder buch
bus büro dach datei dienst dorf ecke eltern essen fabrik fach fahrer fahrt farbe feier feld fenster fest film firma
fisch flasche fleisch flug fluss frau freund frühstück garten gast gebäude geburtstag gefühl geld gemüse gerät gericht
geschäft geschichte gesellschaft gespräch getränk gras größe gruppe hafen hand haus heft heizung hemd herr hof holz
hose hotel hund jacke jahr kaffee kamera karte kasse katze keller kind kirche kissen klasse kleid koch konto konzert
kopf korb kosten kraft krankheit kuchen kunde kunst kurs küche lager lampe land laden laufen lehrer leitung licht
liste löffel mann mantel markt maschine meister messer miete milch mittel möbel monat motor museum musik mutter nacht
name nummer ordner ort papier park partner pause pflanze plan platz politik post praxis preis problem produkt programm
projekt prüfung rad raum rechnung regal reise restaurant ring rock roman saft saison salat salbe schaden schein schiff
schlüssel schmerz schrank schuh schule schüler schutz schwester see seite sendung sitzung software sohn spiel spieler
sport sprache stadt stein stelle straße stück stuhl stunde suppe system tag tante tasche tasse tee teil telefon
teppich termin test theater ticket tisch tochter topf training treffen treppe tür uhr unfall unterricht urlaub vater
verein verkäufer versicherung vertrag vogel wagen wald wand wasser weg wein werkstatt wetter wohnung woche wort zahl
zahn zeichen zeit zeitung zentrum zettel ziel zimmer zug
"""
HEADS: Final = frozenset(_COMMON.split())
_SHORTEST_FIRST = 3
_SHORTEST_COMPOUND = 7
_SHORTEST_VERB = 5
_VOWELS = frozenset("aeiouyäöü")


class Parts:
    """Takes German words apart with a *stem* function; heads are known by their stems."""

    def __init__(self, stem: Callable[[str], str]) -> None:
        self._stem = stem
        heads = {self.short(stem(head)) for head in HEADS}
        self._heads = {head: head for head in heads} | {head[:-1]: head for head in heads if _ends_like_verb(head)}
        self._lengths = sorted({len(head) for head in self._heads}, reverse=True)

    def short(self, stemmed: str) -> str:
        """Return a stem without the -t of a verb's third person ("wohnt", as "wohne"); nouns lose theirs alike."""
        return stemmed[:-1] if len(stemmed) >= _SHORTEST_VERB and _ends_like_verb(stemmed) else stemmed

    def terms(self, word: str) -> Iterator[str]:
        """Yield the stems of the parts of a compound, and then that of the whole *word*."""
        whole = self.short(self._stem(word))
        if len(whole) >= _SHORTEST_COMPOUND:
            for length in self._lengths:
                head, first = whole[-length:], whole[:-length]
                if len(first) >= _SHORTEST_FIRST and head in self._heads:
                    yield self.short(self._stem(_unlinked(first)))
                    yield self._heads[head]
                    break
        yield whole


def _ends_like_verb(stemmed: str) -> bool:
    return stemmed[-1] == "t" and stemmed[-2] != "t" and stemmed[-2] not in _VOWELS


def _unlinked(first: str) -> str:
    """Return the first part of a compound without the -s that joins it ("Geburtstags-")."""
    return first[:-1] if len(first) > _SHORTEST_FIRST + 1 and first[-1] == "s" != first[-2] else first
