// What <hubbub-leaderboard> says in English.

import { format, players } from "./shared.js";

export { words as shared } from "./shared.js";

const ENDS = { one: "st", two: "nd", few: "rd", other: "th" };
const ordinals = new Intl.PluralRules("en", { type: "ordinal" });
const ordinal = (rank) => `${format(rank)}${ENDS[ordinals.select(rank)]}`;

export const words = {
  none: "No scores yet.",
  missing: (name) => `There is no leaderboard named ${name}.`,
  noScore: "You do not have a score yet.",
  standing: (rank, of) => `You are ${ordinal(rank)} of ${format(of)}`,
  until: (time) => `until ${time}`,
  toNext: (points) => `, ${points} to the next place`,
  pointsToAdd: "Add to your score",
  yourScore: "Your score",
  submit: "Submit",
  submitted: (score) => `Your score is ${score}.`,
  signIn: "Sign in to submit a score.",
  scoreIn: (unit) => `Score (${unit})`,
  range: (from, to, number) => `${from} to ${to}: ${players(number)}`,
  scores: (from, to) => `Scores from ${from} to ${to}.`,
  perRange: "players per score range",
};
