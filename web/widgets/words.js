// The words of the widgets in English. `words.de.js` has the same keys in German. The page's `lang` chooses.

import { words as german } from "./words.de.js";

const ENDS = { one: "st", two: "nd", few: "rd", other: "th" };
const ordinals = new Intl.PluralRules("en", { type: "ordinal" });
const format = new Intl.NumberFormat("en");
const counted = (number, one, many) => `${format.format(number)} ${number === 1 ? one : many}`;
const players = (number) => counted(number, "player", "players");

const english = {
  loading: "Loading …",
  offline: "No response from the server. Retrying …",
  failed: "Something went wrong.",
  noResponse: "No response from the server. Please retry.",
  name: "Your name (optional)",
  you: "you",
  rank: "Rank",
  player: "Player",
  players,

  comments: {
    title: "Comments",
    filter: "Filter comments",
    language: "Language",
    allLanguages: "All languages",
    news: "Show new comments",
    more: "Show more",
    noMatch: "No comments match this filter.",
    none: "No comments yet.",
    shown: (number) => `${format.format(number)} shown`,
    noRatings: "No ratings yet",
    facts: (average, total) => ` ${average.toFixed(1)} of 5, ${counted(total, "comment", "comments")}`,
    starsBefore: (rating) => (rating === 1 ? "star, comments:" : "stars, comments:"),
    stars: (rating) => counted(rating, "star", "stars"),
    starsOf5: (rating) => `${rating} of 5 stars`,
    signIn: "Sign in to comment.",
    post: "Comment",
    already: "You have already commented. This is your comment.",
    number: (number) => format.format(number),
    helpful: "Helpful",
    foundHelpful: (number) => `${counted(number, "person", "people")} found this helpful`,
    reply: "Reply",
    replies: (number) => counted(number, "reply", "replies"),
    moreReplies: "Show more replies",
    yourReply: "Your reply",
    postReply: "Post reply",
    signInToReply: "Sign in to reply.",
    edited: "edited",
    edit: "Edit",
    save: "Save",
    cancel: "Cancel",
    delete: "Delete",
    reallyDelete: "Really delete?",
    rating: "Your rating",
    text: "Your comment",
    changedElsewhere: "This comment was changed elsewhere in the meantime. Cancel, then edit it again.",
  },

  leaderboard: {
    score: "Score",
    none: "No scores yet.",
    noScore: "You have no score yet.",
    standing: (rank, of) => `You are ${format.format(rank)}${ENDS[ordinals.select(rank)]} of ${format.format(of)}`,
    toNext: (points) => `, ${points} to the next place`,
  },

  challenge: {
    facts: (count, paths) => `${players(count)} found ${counted(paths, "answer", "answers")}`,
    none: "No answers found yet.",
    progress: (found, limit) => `You have found ${format.format(found)} of ${format.format(limit)}.`,
    progressLabel: "Your progress",
    answer: "Your answer",
    submit: "Submit",
    wait: "Wait …",
    signIn: "Sign in to play.",
    correct: (path) => `${path} is correct.`,
    again: "You have already found this answer.",
    wrong: (guess) => `${guess} is not a correct answer.`,
    found: "Answers you have found",
    opens: (time) => `Opens on ${time}.`,
    closed: (time) => `Closed on ${time}.`,
    leaders: "Leaders",
    answers: "Answers",
    statistics: "Players by answers found",
    reached: (number, count) => `At least ${counted(number, "answer", "answers")}: ${players(count)}`,
  },

  chat: {
    title: "Chat",
    start: "Start chatting",
    message: "Message",
    messages: "Messages",
    send: "Send",
    next: "Next",
    leave: "Leave",
    report: "Report",
    reason: "Reason",
    sendReport: "Send report",
    reasons: ["Insults", "Advertising", "Something else"],
    you: "You",
    stranger: "Stranger",
    typing: "The stranger is typing …",
    strangerLeft: "The stranger has left.",
    youLeft: "You have left the chat.",
    back: "You are connected with the same stranger again.",
    reported: "Your report was sent. You will not meet this stranger again.",
    notSent: "Not sent.",
    sendAgain: "Send again",
    states: {
      out: "Talk with a stranger. Messages are not stored.",
      offline: "Connecting …",
      waiting: "Waiting for a stranger",
      matched: "You are chatting with a stranger",
      idle: "You have left the lobby",
    },
    errors: {
      not_matched: "You have no chat partner.",
      too_long: "The message is too long.",
      slow_down: "You are sending too fast. Please wait a moment.",
      bad_request: "The request was not valid.",
      Offline: "The connection was lost.",
    },
  },
};

const LANGUAGES = { en: english, de: german };

/** Return the words in the language of an element, or in English. */
export function wordsFor(element) {
  const language = element.closest("[lang]")?.lang.slice(0, 2).toLowerCase();
  return Object.hasOwn(LANGUAGES, language) ? LANGUAGES[language] : english;
}
