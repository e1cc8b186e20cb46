// What <hubbub-challenge> says in German.

import { counted, format, players } from "./shared.js";

export { words as shared } from "./shared.js";

const answers = (number) => counted(number, "Antwort", "Antworten");

export const words = {
  missing: (name) => `Es gibt kein Rätsel namens ${name}.`,
  facts: (count, paths) => `${players(count)} ${count === 1 ? "hat" : "haben"} ${answers(paths)} gefunden`,
  none: "Noch keine Antwort gefunden.",
  progress: (found, limit) => `Du hast ${format(found)} von ${format(limit)} gefunden.`,
  progressLabel: "Dein Fortschritt",
  answer: "Deine Antwort",
  submit: "Prüfen",
  signIn: "Melde dich an, um mitzuspielen.",
  correct: (path) => `${path} ist richtig.`,
  again: "Diese Antwort hast du schon gefunden.",
  wrong: (guess) => `${guess} ist keine richtige Antwort.`,
  found: "Deine Antworten",
  finders: (number, isFirst) => `${isFirst ? "zuerst gefunden, " : ""}${players(number)}`,
  opens: (time) => `Beginnt am ${time}.`,
  closed: (time) => `Endete am ${time}.`,
  leaders: "Die Besten",
  answers: "Antworten",
  answersFound: "Gefundene Antworten",
  atLeast: "Spieler mit mindestens so vielen Antworten",
  reached: (number, atLeast, exactly) => `Mindestens ${answers(number)}: ${players(atLeast)}. Genau ${format(number)}: ${players(exactly)}.`,
  foundAll: (number, limit) => `${players(number)} ${number === 1 ? "hat" : "haben"} alle ${format(limit)} gefunden.`,
  errors: {
    LimitReached: "Du hast schon die Höchstzahl an Antworten gefunden.",
    NotOpen: "Dieses Rätsel ist gerade nicht offen.",
  },
};
