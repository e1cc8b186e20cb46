"""The words of the demo: names, the answers of its challenge, what its comments say."""

ADJECTIVES = (
    "amber",
    "brave",
    "calm",
    "dusty",
    "eager",
    "fuzzy",
    "gentle",
    "hasty",
    "jolly",
    "keen",
    "lucky",
)
ANIMALS = ("badger", "crane", "finch", "gecko", "heron", "ibex", "koala", "lynx", "newt", "otter", "raven")

ANSWERS = [
    *("Baghdad", "Baku", "Bamako", "Bandar Seri Begawan", "Bangkok", "Bangui", "Banjul", "Basseterre"),
    *("Beijing", "Beirut", "Belgrade", "Belmopan", "Berlin", "Bern", "Bishkek", "Bissau", "Bogotá"),
    *("Brasília", "Bratislava", "Brazzaville", "Bridgetown", "Brussels", "Bucharest", "Budapest"),
    "Buenos Aires",
]

_SAID = {
    "en": [
        (5, "Does one thing, and does it well. I have stopped counting by hand."),
        (5, "Set up before my tea was cold."),
        (4, "Good numbers, good manners. A few more plots would be nice."),
        (4, "Was sceptical of yet another counter. This one I kept."),
        (3, "Fine, though I had to read the manual twice."),
        (2, "Too plain for my taste."),
        (5, "The leaderboard made our office unbearable. Five stars."),
        (1, "Arrived as software. I had expected a parcel."),
    ],
    "de": [
        (5, "Läuft seit Wochen, ohne dass ich daran denken muss."),
        (4, "Schlicht und schnell. Genau richtig."),
        (3, "Ordentlich, aber die Farben sind Geschmackssache."),
        (5, "Endlich Zahlen, denen ich glaube."),
        (2, "Mir fehlt der Export."),
    ],
    "fr": [
        (5, "Simple, rapide, et ça marche."),
        (4, "Très bien, il ne manque que le café."),
        (1, "Je n’ai rien compris au classement."),
        (5, "Mes élèves adorent le défi des capitales."),
    ],
    "es": [
        (4, "Muy práctico para una web pequeña."),
        (5, "Lo instalé una tarde y sigue ahí."),
        (3, "Correcto, sin más."),
    ],
}
COMMENTS = [
    {"rating": rating, "language": language, "text": text}
    for language, said in _SAID.items()
    for rating, text in said * 3
]
