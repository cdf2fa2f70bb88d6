"""Language data of text analysis: stop words, Chinese particles, German compounds.

Stop words: fragments that an apostrophe leaves (``don`` ``t``) stand with them; where a fragment is a word of its own
(``won't``), the whole does. Each includes its form without accents. A language without a list keeps all its
words.

German beyond its stemmer: compounds are taken apart at common last parts, and verbs lose their -t. The table is small,
no dictionary: a compound whose last part is not in it stays whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

_ENGLISH = """
a about above after again against ain all also am an and any are aren as at be because been before being below between
both but by can could couldn d did didn do does doesn doing don down during each else ever few for from further get
got had hadn has hasn have haven having he her here hers herself him himself his how however i if in into is isn it
its itself just let ll m ma me might mightn more most must mustn my myself needn no nor not now o of off on once one
only or other our ours ourselves out over own re really s same shan she should shouldn so some such t than that the
their theirs them themselves then there these they this those through to too under until up upon us ve very was wasn
we well were weren what when where whether which while who whom whose why will with within would wouldn y yes yet you
your yours yourself yourselves won't
"""

_GERMAN = """
aber alle allem allen aller alles als also am an ander andere anderen auch auf aus bei bin bis bist da damit dann
das dass dazu dein deine dem den denn der deren des dessen dich die dies diese diesem diesen dieser dieses dir doch
dort du durch ein eine einem einen einer eines er es etwas euch euer eure fur für gegen hab habe haben hat hatte
hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in indem ins ist jede jedem jeden jeder jedes
jetzt kann kein keine keinem keinen keiner mal man manche mein meine meinem meinen meiner mich mir mit muss nach
nicht nichts noch nun nur ob oder ohne schon sehr sein seine seinem seinen seiner sich sie sind so solche soll
sondern sonst uber um und uns unser unsere unter viel vom von vor wann war waren warum was weg weil weiter welche
welchem welchen welcher wem wen wenn wer werde werden wessen wie wieder will wir wird wo wollen wollte wurde wurden
zu zum zur zwar zwischen über
"""

_SPANISH = """
a al algo algunas algunos ante antes aqui aquí asi así aun aunque aún cada como con contra cual cuales cuando cuanto
cuál cuándo cuánto cómo de del desde donde dos dónde el ella ellas ellos en entre era eran es esa esas ese eso esos
esta estaba estado estan estar estas este esto estos estoy está están estás fue fueron ha habia había han has hasta
hay he hemos la las le les lo los mas me mi mis mucho muchos muy más mí nada ni no nos nosotros nuestra nuestro o os
otra otras otro otros para pero poco por porque que quien quienes quién qué se sea ser si sin sino sobre solo somos
son soy su sus sé sí sólo tambien también tan tanto te tengo tenia tenía tiene tienen todo todos tu tus tú un una
unas uno unos usted ustedes y ya yo él
"""

_FRENCH = """
a ai aie ainsi alors as au aucun aura aussi autre aux avait avec avoir avons c ce ceci cela ces cet cette ceux
chaque ci comme comment d dans de des du déjà elle elles en encore entre es est et etaient etait ete etre eu eux
fait il ils j je jusqu l la le les leur leurs lui là m ma mais me meme memes mes moi mon même mêmes n ne ni nos
notre nous on ont ou où par pas peu peut plus pour pourquoi qu quand que quel quelle quelles quels qui quoi s sa
sans se sera ses si soit son sont sous sur t ta te tes toi ton tous tout toute toutes tres très tu un une vos votre
vous y à étaient était été être
"""

_ITALIAN = """
a ad ai al alla alle allo anche ancora avere aveva avevo c che chi ci cioè come con contro cosa cui d da dai dal
dalla dalle dei del della delle dello di dove e ed era erano essere fa fra già gli ha hai hanno ho i il in io l la
le lei li lo loro lui ma me mi mia mie miei mio molto ne negli nei nel nella nelle no noi non nostra nostro né o
ogni per perche perché piu più poi qual quale quando quanto quella quelle quelli quello questa queste questi questo
qui se sei si sia siamo siete sono su sua sue sui sul sulla suo suoi sì te ti tra tu tua tue tuo tuoi tutti tutto un
una uno vi voi è
"""

_PORTUGUESE = """
a ainda ao aos aquela aquele aqui as ate até com como da das de dela dele deles depois do dos e ela elas ele eles em
entre era essa esse esta estao estar estava este estou está estão eu foi foram ha há isso isto ja já la lhe lhes lá
mais mas me mesmo meu meus minha minhas muito na nao nas nem no nos nossa nosso num numa não o os ou para pela pelas
pelo pelos por porque qual quando que quem se sem ser seu seus so sobre sou sua suas são só tambem também te tem
tenho teu teve tinha tu tua um uma voce voces você vocês vê à às é
"""

_DUTCH = """
aan al alles als altijd andere ben bij daar dan dat de der deze die dit doch doen door dus een en er ge geen geweest
haar had heb hebben heeft hem het hier hij hoe hun iemand iets ik in is ja je kan kon kunnen maar me meer men met
mij mijn moet na naar niet niets nog nu of om omdat onder ons ook op over reeds te tegen toch toen tot u uit uw van
veel voor want waren was wat we wel werd wezen wie wij wil worden wordt zal ze zelf zich zij zijn zo zonder zou één
"""

CHINESE_PARTICLES: Final = (
    "为什么|什么|怎么样|怎么|怎样|哪里|哪儿|哪些|哪个|多少|谁|吗|呢|吧|啊|呀|嘛|的|了|着|们|我|你|您|他|她|它|这|那|是|在|和|与|也|都|就|很"
    "|為什麼|什麼|怎麼|哪裡|嗎|們|這|與"
)
"""Chinese words and particles, as a pattern: a run of characters is cut where they stand."""

STOP_WORDS: Final[Mapping[str, frozenset[str]]] = {
    language: frozenset(words.split())
    for language, words in {
        "english": _ENGLISH,
        "german": _GERMAN,
        "spanish": _SPANISH,
        "french": _FRENCH,
        "italian": _ITALIAN,
        "portuguese": _PORTUGUESE,
        "dutch": _DUTCH,
    }.items()
}

_GERMAN_HEADS = """
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
GERMAN_COMPOUND_HEADS: Final = frozenset(_GERMAN_HEADS.split())
_SHORTEST_FIRST_PART = 3
_SHORTEST_COMPOUND = 7
_SHORTEST_VERB = 5
_VOWELS = frozenset("aeiouyäöü")


class GermanCompounds:
    """Takes German words apart with a *stem* function; heads are known by their stems."""

    def __init__(self, stem: Callable[[str], str]) -> None:
        self._stem = stem
        heads = {self.short(stem(head)) for head in GERMAN_COMPOUND_HEADS}
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
                if len(first) >= _SHORTEST_FIRST_PART and head in self._heads:
                    yield self.short(self._stem(_without_linking_s(first)))
                    yield self._heads[head]
                    break
        yield whole


def _ends_like_verb(stemmed: str) -> bool:
    return stemmed[-1] == "t" and stemmed[-2] != "t" and stemmed[-2] not in _VOWELS


def _without_linking_s(first: str) -> str:
    """Return the first part of a compound without the -s that joins it ("Geburtstags-")."""
    return first[:-1] if len(first) > _SHORTEST_FIRST_PART + 1 and first[-1] == "s" != first[-2] else first
