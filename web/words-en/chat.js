// What <hubbub-chat> says in English.

export { words as shared } from "./shared.js";

export const words = {
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
  back: "You are back with the same stranger.",
  reported: "Your report was sent. You will not meet this stranger again.",
  notSent: "Not sent.",
  sendAgain: "Send again",
  unavailable: "Chat is not available right now.",
  states: {
    out: "Chat with a stranger. Messages are not stored.",
    offline: "Connecting …",
    waiting: "Waiting for a stranger",
    matched: "You are chatting with a stranger",
    idle: "You have left the lobby",
  },
  errors: {
    not_matched: "You have no chat partner.",
    unconfirmed: "The stranger may be offline.",
    too_long: "The message is too long.",
    slow_down: "You are sending too fast. Please wait a moment.",
    bad_request: "This was not accepted.",
  },
};
