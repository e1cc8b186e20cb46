// What <hubbub-challenge> says in English.

import { counted, format, players } from "./shared.js";

export { words as shared } from "./shared.js";

const answers = (number) => counted(number, "answer", "answers");

export const words = {
  missing: (name) => `There is no challenge named ${name}.`,
  facts: (count, paths) => `${players(count)} found ${answers(paths)}`,
  none: "No answers found yet.",
  progress: (found, limit) => `You have found ${format(found)} of ${format(limit)}.`,
  progressLabel: "Your progress",
  answer: "Your answer",
  submit: "Submit",
  signIn: "Sign in to play.",
  correct: (path) => `${path} is correct.`,
  again: "You have already found this answer.",
  wrong: (guess) => `${guess} is not a correct answer.`,
  found: "Answers you have found",
  finders: (number, isFirst) => `${isFirst ? "found first, " : ""}${players(number)}`,
  opens: (time) => `Opens on ${time}.`,
  closed: (time) => `Closed on ${time}.`,
  leaders: "Top players",
  answers: "Answers",
  answersFound: "Answers found",
  atLeast: "players who found at least this many answers",
  reached: (number, atLeast, exactly) => `At least ${answers(number)}: ${players(atLeast)}. Exactly ${format(number)}: ${players(exactly)}.`,
  foundAll: (number, limit) => `${players(number)} found all ${format(limit)}.`,
  errors: {
    LimitReached: "You have found the maximum number of answers.",
    NotOpen: "This challenge is not open.",
  },
};
