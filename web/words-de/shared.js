// What several widgets and the pages say in German. Each language has the same files with the same keys.

const numbers = new Intl.NumberFormat("de");

/** Format a number: "1,539". */
export const format = (number) => numbers.format(number);

/** Format a count with its noun: "1 view", "1,539 views". */
export const counted = (number, one, many) => `${format(number)} ${number === 1 ? one : many}`;

export const players = (number) => counted(number, "Spieler", "Spieler");

const failed = "Etwas ist schiefgegangen. Bitte versuche es später noch einmal.";
const broken = "Mit dieser Seite stimmt etwas nicht. Bitte sage es ihrem Betreiber.";
const changed = "Jemand anderes hat das gerade geändert. Bitte versuche es noch einmal.";
const refused = "Das wurde nicht angenommen. Bitte prüfe deine Eingabe.";

export const words = {
  loading: "Wird geladen …",
  offline: "Der Server antwortet nicht. Neuer Versuch …",
  failed,
  name: "Dein Name (freiwillig)",
  you: "du",
  rank: "Platz",
  player: "Spieler",
  players,
  playersAxis: "Spieler",
  score: "Punkte",
  more: "Mehr zeigen",
  wait: "Warte …",
  chartHint: "Mit den Pfeiltasten lassen sich einzelne Balken lesen.",

  errors: {
    Offline: "Der Server antwortet nicht. Bitte versuche es noch einmal.",
    Unauthorized: "Bitte melde dich erneut an.",
    Forbidden: "Das ist dir nicht erlaubt.",
    NotFound: "Das gibt es nicht mehr.",
    Conflict: changed,
    PreconditionFailed: changed,
    BadRequest: refused,
    Unprocessable: refused,
    TooLarge: "Das ist zu lang.",
    SlowDown: "Das war zu schnell. Bitte warte einen Augenblick.",
    Busy: "Gerade ist hier zu viel los. Bitte versuche es noch einmal.",
    BadCursor: "Die Liste hat sich geändert. Bitte lade sie neu.",
    UriTooLong: "Dieser Name ist zu lang.",
    UnsupportedMediaType: broken,
    InternalError: failed,
    BadResponse: failed,
  },
};
