// What <hubbub-leaderboard> says in German.

import { format, players } from "./shared.js";

export { words as shared } from "./shared.js";

export const words = {
  none: "Noch keine Ergebnisse.",
  missing: (name) => `Es gibt keine Rangliste namens ${name}.`,
  noScore: "Du hast noch kein Ergebnis.",
  standing: (rank, of) => `Du bist ${format(rank)}. von ${format(of)}`,
  until: (time) => `bis ${time}`,
  toNext: (points) => `, ${points} bis zum nächsten Platz`,
  pointsToAdd: "Zum Ergebnis hinzufügen",
  yourScore: "Dein Ergebnis",
  submit: "Eintragen",
  submitted: (score) => `Dein Ergebnis ist ${score}.`,
  signIn: "Melde dich an, um ein Ergebnis einzutragen.",
  scoreIn: (unit) => `Ergebnis (${unit})`,
  range: (from, to, number) => `${from} bis ${to}: ${players(number)}`,
  scores: (from, to) => `Ergebnisse von ${from} bis ${to}.`,
  perRange: "Spieler je Punktbereich",
};
