// What several widgets and the pages say in English. Each language has the same files with the same keys.

const numbers = new Intl.NumberFormat("en");

/** Format a number: "1,539". */
export const format = (number) => numbers.format(number);

/** Format a count with its noun: "1 view", "1,539 views". */
export const counted = (number, one, many) => `${format(number)} ${number === 1 ? one : many}`;

export const players = (number) => counted(number, "player", "players");

const failed = "Something went wrong. Please try again later.";
const broken = "Something is wrong with this page. Please tell its owner.";
const changed = "Someone else has just changed this. Please try again.";
const refused = "This was not accepted. Please check what you entered.";

export const words = {
  loading: "Loading …",
  offline: "No response from the server. Retrying …",
  failed,
  name: "Your name (optional)",
  you: "you",
  rank: "Rank",
  player: "Player",
  players,
  playersAxis: "Players",
  score: "Score",
  more: "Show more",
  wait: "Wait …",
  chartHint: "Use the arrow keys to read individual bars.",

  // Errors by their code.
  errors: {
    Offline: "No response from the server. Please try again.",
    Unauthorized: "Please sign in again.",
    Forbidden: "You are not allowed to do this.",
    NotFound: "This no longer exists.",
    Conflict: changed,
    PreconditionFailed: changed,
    BadRequest: refused,
    Unprocessable: refused,
    TooLarge: "This is too long.",
    SlowDown: "You are going too fast. Please wait a moment.",
    Busy: "Too many people are here right now. Please try again.",
    BadCursor: "The list has changed. Please load it again.",
    UriTooLong: "This name is too long.",
    UnsupportedMediaType: broken,
    InternalError: failed,
    BadResponse: failed,
  },
};
