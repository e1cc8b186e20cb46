// What <hubbub-comments> says in English.

import { counted, format } from "./shared.js";

export { words as shared } from "./shared.js";

const stars = (number) => counted(number, "star", "stars");

export const words = {
  title: "Comments",
  filter: "Filter comments",
  language: "Language",
  allLanguages: "All languages",
  order: "Order",
  orders: { newest: "Newest first", oldest: "Oldest first", helpful: "Most helpful", highest: "Best rating", lowest: "Worst rating" },
  verified: "Verified",
  noRating: "No rating",
  comments: (total) => counted(total, "comment", "comments"),
  news: "Show new comments",
  noMatch: "No comments match this filter.",
  none: "No comments yet.",
  shown: (number) => `${format(number)} shown`,
  noRatings: "No ratings yet",
  facts: (average, total) => ` ${average.toFixed(1)} of 5, ${counted(total, "comment", "comments")}`,
  starsBefore: (rating) => (rating === 1 ? "star, comments:" : "stars, comments:"),
  stars,
  starsOf5: (rating) => `${rating} of 5 stars`,
  signIn: "Sign in to comment.",
  post: "Comment",
  already: "You have already commented. This is your comment.",
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
  deleteComment: "Delete this comment?",
  deleteReply: "Delete this reply?",
  pending: "Waiting for approval",
  report: "Report",
  reason: "What is wrong with it?",
  reported: "Reported. Thank you.",
  rating: "Your rating",
  text: "Your comment",
  errors: {
    PreconditionFailed: "This comment has been changed in the meantime. Cancel, then edit it again.",
  },
};
