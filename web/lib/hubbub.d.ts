// The types of hubbub.js. Written by `python -m ops client` from the OpenAPI document and ops/client.d.ts.

/** A code of the contract, or one of the client's own: `Offline` and `BadResponse`. */
export type Code = "BadCursor" | "BadRequest" | "Busy" | "Conflict" | "Forbidden" | "InternalError" | "InvalidPath" | "LimitReached" | "MethodNotAllowed" | "NotFound" | "NotOpen" | "PreconditionFailed" | "SlowDown" | "TooLarge" | "Unauthorized" | "Unprocessable" | "UnsupportedMediaType" | "UriTooLong" | "bot" | "in_the_future" | "site_not_allowed" | "too_old"
  | "Offline" | "BadResponse" | "bad_request" | "too_long" | "slow_down" | "not_matched";

/** A refused call or frame. */
export class HubbubError extends Error {
  constructor(code: string, message?: string, details?: { status?: number; retryAfter?: number });
  readonly code: Code;
  /** The HTTP status; 0 without a response. */
  readonly status: number;
  /** Seconds to wait before a retry; 0 if the server names none. */
  readonly retryAfter: number;
}

export type Token = string | ((isRefused: boolean) => string | Promise<string>);

export interface Options {
  /** A bearer token, or a function that returns one. It is called with true after a token was refused. */
  token?: Token;
  /** The address of the sockets (`wss://…`). The default is the one that the stage names. */
  socket?: string;
  fetch?: typeof fetch;
  WebSocket?: typeof WebSocket;
  /** Called after each call. */
  onCall?(call: { name: string; method: string; path: string; status: number; headers?: Headers; ms: number }): void;
}

export interface CallOptions {
  idempotencyKey?: string;
  ifMatch?: string;
  signal?: AbortSignal;
  /** Whether the token is sent. The default is: only with calls that need one. */
  auth?: boolean;
}

/** A list: await it for its first page, or iterate over all items. */
export type Pages<T extends { items: unknown[] }> = Promise<T> & AsyncIterable<T["items"][number]>;

export interface LiveOptions<T> {
  onError?(error: HubbubError): void;
  onState?(isConnected: boolean): void;
  /** Loads the value while the topic is not connected. */
  poll?(): Promise<T>;
  /** Milliseconds between two calls of `poll`. The default is 5000. */
  every?: number;
}

export interface BoardTopic {
  board: string;
  season: number;
  players: number;
  items: Entries["items"];
}

/** The value of a topic, by the beginning of its name. */
export type Value<Topic extends string> =
  Topic extends `views:${string}` ? PageViews
  : Topic extends `leaderboard:${string}` ? BoardTopic | null
  : Topic extends `challenge:${string}` ? ChallengeStatistics | null
  : Topic extends `product:${string}` ? RatingStatistics
  : unknown;

export interface Chat extends EventTarget {
  readonly state: "offline" | "waiting" | "matched" | "idle";
  readonly isOpen: boolean;
  /** The token with which another connection can take this place. */
  readonly resumeToken: string;
  /** Resolves when the partner's connection has the text. */
  sendMessage(text: string): Promise<void>;
  sendTyping(): Promise<void>;
  next(): Promise<void>;
  find(): Promise<void>;
  leave(): Promise<void>;
  report(reason: string): Promise<void>;
  /** Leave for good. */
  close(): void;
  /** Stop without giving up the place, before a page is unloaded. */
  suspend(): void;
}

export class Hubbub {
  constructor(api: string | URL, options?: Options);
  set token(token: Token);
  /** The guest that this browser keeps for the stage. */
  readonly guest: Guest | null;
  /** Sign in as the guest that this browser keeps, or as a new one with `fresh`. Another name renames the guest. */
  signInAsGuest(name?: string, options?: { fresh?: boolean }): Promise<Guest>;
  live<Topic extends string>(topic: Topic, onValue: (value: Value<Topic>) => void, options?: LiveOptions<Value<Topic>>): () => void;
  chat(lobby?: string, options?: { interests?: string[]; resume?: string }): Chat;
  /** Send a call by its name, and return its status, headers and body. */
  request<Name extends CallName>(name: Name, args?: Parameters<Hubbub[Name]>[0], options?: CallOptions): Promise<{ status: number; headers: Headers; etag: string | null; body: Awaited<ReturnType<Hubbub[Name]>> }>;
  /** Sign in as a guest with a random `sub`. A guest with a token keeps the `sub` and gets another name. `POST /guests` */
  postGuest(args: GuestBody, options?: CallOptions): Promise<Guest>;
  /** Count one view event, or a list of up to 25 events; with a user's or admin's token up to 500. `POST /views` */
  postViews(args: ViewsBody, options?: CallOptions): Promise<Accepted>;
  /** Return a page's views and unique clients. `GET /views` */
  getViews(args: { url: string; }, options?: CallOptions): Promise<PageViews>;
  /** Return a page's views by hour or by day. `GET /views/series` */
  getViewsSeries(args: { url: string; interval?: "day" | "hour"; from?: string; to?: string; }, options?: CallOptions): Promise<Series>;
  /** List a page's view events in a time frame. `GET /views/events` */
  getViewsEvents(args: { url: string; from?: string; to?: string; limit?: number; cursor?: string; }, options?: CallOptions): Pages<ViewEvents>;
  /** List a site's most viewed pages, of all time or of a period of UTC days. `GET /views/top` */
  getViewsTop(args: { site: string; from?: string; to?: string; limit?: number; }, options?: CallOptions): Promise<TopPages>;
  /** Return a site's views and visitors by hour or by day. `GET /views/site` */
  getViewsSite(args: { site: string; interval?: "day" | "hour"; from?: string; to?: string; }, options?: CallOptions): Promise<SiteSeries>;
  /** List the hosts that led to a site in a period of UTC days. `GET /views/referrers` */
  getViewsReferrers(args: { site: string; from?: string; to?: string; limit?: number; }, options?: CallOptions): Promise<Referrers>;
  /** List the campaigns that led to a site in a period of UTC days. `GET /views/campaigns` */
  getViewsCampaigns(args: { site: string; from?: string; to?: string; limit?: number; }, options?: CallOptions): Promise<Campaigns>;
  /** List the sites that have views, largest first. `GET /sites` */
  getSites(args?: { limit?: number; cursor?: string; }, options?: CallOptions): Pages<Sites>;
  /** Create a leaderboard, or change its title, unit or reset date. `PUT /leaderboards/{board}` */
  putBoard(args: { board: string; } & BoardBody, options?: CallOptions): Promise<BoardDetails>;
  /** Return a leaderboard and the number of ranked players. `GET /leaderboards/{board}` */
  getBoard(args: { board: string; season?: number; }, options?: CallOptions): Promise<BoardDetails>;
  /** List the leaderboards, newest first. `GET /leaderboards` */
  getBoards(args?: { limit?: number; cursor?: string; }, options?: CallOptions): Pages<Boards>;
  /** End a season. `POST /leaderboards/{board}/seasons` */
  postSeason(args: { board: string; } & SeasonBody, options?: CallOptions): Promise<BoardDetails>;
  /** Submit a score. `POST /leaderboards/{board}/scores` */
  postScore(args: { board: string; } & ScoreBody, options?: CallOptions): Promise<ScoreResult>;
  /** Return a player's score and rank. `GET /leaderboards/{board}/players/{player}` */
  getPlayer(args: { board: string; player: string; season?: number; consistent?: boolean; }, options?: CallOptions): Promise<Standing>;
  /** Remove a player from all seasons of a leaderboard. `DELETE /leaderboards/{board}/players/{player}` */
  deletePlayer(args: { board: string; player: string; }, options?: CallOptions): Promise<null>;
  /** List a player's submissions. `GET /leaderboards/{board}/players/{player}/activities` */
  getActivities(args: { board: string; player: string; limit?: number; cursor?: string; }, options?: CallOptions): Pages<Activities>;
  /** List a part of a leaderboard, best score first. `GET /leaderboards/{board}/entries` */
  getEntries(args: { board: string; limit?: number; cursor?: string; place?: number; around?: string; season?: number; }, options?: CallOptions): Pages<Entries>;
  /** Count the players of a leaderboard in each range of scores. `GET /leaderboards/{board}/distribution` */
  getDistribution(args: { board: string; season?: number; }, options?: CallOptions): Promise<Distribution>;
  /** Create or replace a challenge. `PUT /challenges/{challenge}` */
  putChallenge(args: { challenge: string; } & ChallengeBody, options?: CallOptions): Promise<Challenge>;
  /** Return a challenge without its valid paths. `GET /challenges/{challenge}` */
  getChallenge(args: { challenge: string; }, options?: CallOptions): Promise<Challenge>;
  /** List the challenges, newest first. `GET /challenges` */
  getChallenges(args?: { limit?: number; cursor?: string; }, options?: CallOptions): Pages<Challenges>;
  /** Submit a path. `POST /challenges/{challenge}/paths` */
  postChallengePath(args: { challenge: string; } & PathBody, options?: CallOptions): Promise<SubmissionResult>;
  /** List the paths that a player has found. `GET /challenges/{challenge}/players/{player}` */
  getChallengePlayer(args: { challenge: string; player: string; }, options?: CallOptions): Promise<Progress>;
  /** Delete all paths that a player has found. `DELETE /challenges/{challenge}/players/{player}` */
  deleteChallengePlayer(args: { challenge: string; player: string; }, options?: CallOptions): Promise<null>;
  /** Delete one path that a player has found. `DELETE /challenges/{challenge}/players/{player}/paths/{path}` */
  deleteChallengePath(args: { challenge: string; player: string; path: string; }, options?: CallOptions): Promise<null>;
  /** List a part of a ranked challenge's players, most paths first, then earliest. `GET /challenges/{challenge}/leaders` */
  getChallengeLeaders(args: { challenge: string; limit?: number; cursor?: string; place?: number; around?: string; }, options?: CallOptions): Pages<ChallengeLeaders>;
  /** Count the players of a challenge by the number of paths that they have found. `GET /challenges/{challenge}/statistics` */
  getChallengeStatistics(args: { challenge: string; }, options?: CallOptions): Promise<ChallengeStatistics>;
  /** Comment on a product, once for each author. `POST /products/{product}/comments` */
  postComment(args: { product: string; } & CommentBody, options?: CallOptions): Promise<Comment>;
  /** Return a product's comments, newest first. They can be filtered by ratings and language. `GET /products/{product}/comments` */
  getComments(args: { product: string; rating?: string; language?: string; limit?: number; cursor?: string; explain?: boolean; }, options?: CallOptions): Pages<Comments>;
  /** List the comments on all products, newest first, hidden ones too. `GET /comments` */
  getAllComments(args?: { limit?: number; cursor?: string; }, options?: CallOptions): Pages<AllComments>;
  /** List the products that have had a comment, newest first. `GET /products` */
  getProducts(args?: { limit?: number; cursor?: string; }, options?: CallOptions): Pages<Products>;
  /** Return the comments on a product that an admin has hidden. `GET /products/{product}/hidden` */
  getHidden(args: { product: string; limit?: number; cursor?: string; }, options?: CallOptions): Pages<Comments>;
  /** Return a comment, with an ETag for If-Match. `GET /products/{product}/comments/{id}` */
  getComment(args: { product: string; id: string; }, options?: CallOptions): Promise<Comment>;
  /** Change a comment. `PATCH /products/{product}/comments/{id}` */
  patchComment(args: { product: string; id: string; } & CommentPatch, options?: CallOptions): Promise<Comment>;
  /** Delete a comment with its replies and votes, as its author or as an admin. `DELETE /products/{product}/comments/{id}` */
  deleteComment(args: { product: string; id: string; }, options?: CallOptions): Promise<null>;
  /** Vote for a comment that is helpful, once for each reader. `PUT /products/{product}/comments/{id}/vote` */
  putVote(args: { product: string; id: string; }, options?: CallOptions): Promise<Votes>;
  /** Withdraw the caller's vote, if there is one. `DELETE /products/{product}/comments/{id}/vote` */
  deleteVote(args: { product: string; id: string; }, options?: CallOptions): Promise<null>;
  /** Reply to a comment. `POST /products/{product}/comments/{id}/replies` */
  postReply(args: { product: string; id: string; } & ReplyBody, options?: CallOptions): Promise<Reply>;
  /** Return the replies to a comment, oldest first. `GET /products/{product}/comments/{id}/replies` */
  getReplies(args: { product: string; id: string; limit?: number; cursor?: string; }, options?: CallOptions): Pages<Replies>;
  /** Change a reply. `PATCH /products/{product}/comments/{id}/replies/{reply}` */
  patchReply(args: { product: string; id: string; reply: string; } & ReplyPatch, options?: CallOptions): Promise<Reply>;
  /** Delete a reply, as its author or as an admin. `DELETE /products/{product}/comments/{id}/replies/{reply}` */
  deleteReply(args: { product: string; id: string; reply: string; }, options?: CallOptions): Promise<null>;
  /** List the replies on all products, newest first, hidden ones too. `GET /replies` */
  getAllReplies(args?: { limit?: number; cursor?: string; }, options?: CallOptions): Pages<AllReplies>;
  /** Return a product's counts by rating and its averages, in one language or in all. `GET /products/{product}/statistics` */
  getStatistics(args: { product: string; language?: string; }, options?: CallOptions): Promise<RatingStatistics>;
  /** Return the products with most ratings of 5, in one language or in all. `GET /products/leaders` */
  getLeaders(args?: { limit?: number; language?: string; }, options?: CallOptions): Promise<Leaders>;
  /** Measure how far the sums are behind what is written. `GET /lag` */
  getLag(args?: Record<string, never>, options?: CallOptions): Promise<Lag>;
  /** List the item images in quarantine, newest first: their contribution could not be computed. `GET /quarantine` */
  getQuarantine(args?: { limit?: number; cursor?: string; }, options?: CallOptions): Pages<Quarantine>;
  /** Return the reports of chat partners, newest first. `GET /chat/reports` */
  getChatReports(args?: { limit?: number; cursor?: string; }, options?: CallOptions): Pages<Reports>;
  /** Dismiss a report, or ban the address of the reported visitor for some hours. `POST /chat/reports/{id}` */
  postChatReport(args: { id: string; } & ReportAction, options?: CallOptions): Promise<null>;
  /** Return the state of the app, without any call to the table. `GET /health` */
  getHealth(args?: Record<string, never>, options?: CallOptions): Promise<Health>;
  /** Return the configuration of the page. `GET /web/config.json` */
  getPageConfig(args?: Record<string, never>, options?: CallOptions): Promise<PageConfig>;
}

type CallName = Exclude<keyof Hubbub, "token" | "guest" | "signInAsGuest" | "live" | "chat" | "request">;

/** A stable code, and a message that names the field or the resource. */
export interface Error {
  /** The error */
  Code: "BadCursor" | "BadRequest" | "Busy" | "Conflict" | "Forbidden" | "InternalError" | "InvalidPath" | "LimitReached" | "MethodNotAllowed" | "NotFound" | "NotOpen" | "PreconditionFailed" | "SlowDown" | "TooLarge" | "Unauthorized" | "Unprocessable" | "UnsupportedMediaType" | "UriTooLong" | "bot" | "in_the_future" | "site_not_allowed" | "too_old";
  /** The cause, and what is accepted */
  Message: string;
}

/** The number of accepted events, and the rejected ones. */
export interface Accepted {
  /** Number of accepted events */
  accepted: number;
  /** Events that do not count */
  rejected: Array<Rejection>;
}

/** A page of a player's submissions on a leaderboard, ordered by id. */
export interface Activities {
  items: Array<Activity>;
  cursor: string | null;
}

/** One submission of a player. */
export interface Activity {
  /** The submission's id */
  id: string;
  /** The submitted value */
  value: number;
  /** When the player reached the value */
  time: string;
  /** The number of the season, from 1 */
  season: number;
}

/** A page of the comments on all products, newest first. */
export interface AllComments {
  items: Array<ProductComment>;
  cursor: string | null;
}

/** A page of the replies on all products, newest first. */
export interface AllReplies {
  items: Array<ProductReply>;
  cursor: string | null;
}

/** The definition of a leaderboard. `decimals`, `min`, `max`, `order`, `operator` and `shards` cannot be changed later. */
export interface BoardBody {
  /** The title to display */
  title: string;
  /** The unit of the scores. Default: "" */
  unit?: string;
  /** The most decimals that a value may have. Default: 0 */
  decimals?: number;
  /** The least accepted value. Default: 0 */
  min?: number;
  /** The greatest accepted value. Default: 1000000 */
  max?: number;
  /** The best score is the greatest (`desc`) or the least (`asc`). Default: "desc" */
  order?: "asc" | "desc";
  /** How a submitted value changes the score. `increment` adds the value. `best` keeps the better of the two. `set` keeps the value with the latest time. Default: "increment" */
  operator?: "best" | "increment" | "set";
  resets?: string | null;
  /** The number of index partitions: one for each 200 changed scores per second. Default: 1 */
  shards?: number;
}

/** A leaderboard in one of its seasons, with the number of ranked players. */
export interface BoardDetails {
  /** The title to display */
  title: string;
  /** The unit of the scores. Default: "" */
  unit: string;
  /** The most decimals that a value may have. Default: 0 */
  decimals: number;
  /** The least accepted value. Default: 0 */
  min: number;
  /** The greatest accepted value. Default: 1000000 */
  max: number;
  /** The best score is the greatest (`desc`) or the least (`asc`). Default: "desc" */
  order: "asc" | "desc";
  /** How a submitted value changes the score. `increment` adds the value. `best` keeps the better of the two. `set` keeps the value with the latest time. Default: "increment" */
  operator: "best" | "increment" | "set";
  resets: string | null;
  /** The number of index partitions: one for each 200 changed scores per second. Default: 1 */
  shards: number;
  /** The leaderboard's name */
  board: string;
  /** The number of the season, from 1 */
  season: number;
  /** When the season began */
  started: string;
  ended: string | null;
  /** The number of ranked players */
  players: number;
}

/** A player on a leaderboard. */
export interface BoardEntry {
  /** 1 plus the number of strictly better players. Equal scores share a rank */
  rank: number;
  /** The player's name */
  player: string;
  /** The display name in the token at the time of writing; null if the token had none */
  name: string | null;
  /** The exact score */
  score: number;
}

/** A page of the leaderboards, newest first. */
export interface Boards {
  items: Array<ListedBoard>;
  cursor: string | null;
}

/** One hour or day. `time` is its beginning. */
export interface Bucket {
  /** An ISO 8601 instant with an offset; responses are in UTC */
  time: string;
  /** Number of views */
  views: number;
  /** Number of clients, each counted once per UTC day */
  uniques: number;
}

/** A campaign, and the views that came from it. */
export interface CampaignViews {
  /** The name of a campaign */
  campaign: string;
  /** Number of views */
  views: number;
}

/** A site's campaigns in a period, most views first. */
export interface Campaigns {
  items: Array<CampaignViews>;
  /** false if an item that is not listed may have as many views; otherwise absent */
  complete?: boolean;
}

/** A challenge without its valid paths. */
export interface Challenge {
  challenge: string;
  /** The title to display */
  title: string;
  /** The most paths that a player may find */
  limit: number;
  opens: string | null;
  closes: string | null;
  /** Whether players are ranked. A change applies to each player from the next path found */
  ranked: boolean;
  normalization: Normalization;
}

/** The definition of a challenge. The valid paths can never be read back. */
export interface ChallengeBody {
  /** The title to display */
  title: string;
  /** The valid paths. Equal notations of a path count once */
  paths: Array<string>;
  /** The most paths that a player may find. Default: 12 */
  limit?: number;
  opens?: string | null;
  closes?: string | null;
  /** Whether players are ranked. A change applies to each player from the next path found. Default: false */
  ranked?: boolean;
  normalization?: Normalization | null;
}

/** A ranked player of a challenge. */
export interface ChallengeLeader {
  /** 1 plus the number of strictly better players. Equal players share a rank */
  rank: number;
  /** The player's identifier */
  player: string;
  /** The display name in the token at the time of writing; null if the token had none */
  name: string | null;
  /** The number of paths found */
  found: number;
  /** When the player found the last of them, to the second */
  time: string;
}

/** A page of a challenge's ranked players, most paths first, then earliest. */
export interface ChallengeLeaders {
  items: Array<ChallengeLeader>;
  cursor: string | null;
}

/** The number of players, of found paths, and of players by the number of paths that they found. */
export interface ChallengeStatistics {
  /** The number of players with at least one path */
  players: number;
  /** The number of paths that all players found together */
  paths: number;
  /** By n from 1 to the limit: players with at least n paths */
  reached: Record<string, number>;
  /** By n from 1 to the limit: players with exactly n paths */
  exactly: Record<string, number>;
}

/** A page of the challenges, newest first. */
export interface Challenges {
  items: Array<ListedChallenge>;
  cursor: string | null;
}

/** A comment on a product. */
export interface Comment {
  /** The comment's id, a ULID: ids sort by time */
  id: string;
  /** The author: the `sub` of a token */
  author: string;
  /** The display name in the token at the time of writing; null if the token had none */
  name: string | null;
  /** 1 to 5 */
  rating: number;
  /** A BCP 47 tag, in upper or lower case. Responses have the recommended case, and for an irregular tag such as i-klingon its replacement. Tags are compared whole: en does not include en-GB */
  language: string;
  /** Up to 5,000 characters, or an empty text. Line ends and tabs are the only control characters. It is stored in NFC, with line feeds as line ends and without white space around it */
  text: string;
  /** An ISO 8601 instant with an offset; responses are in UTC */
  created: string;
  /** The time of the last edit, or null */
  edited: string | null;
  /** Whether an admin has hidden it */
  hidden: boolean;
  /** The number of readers who find the comment helpful */
  votes: number;
  /** The number of its replies, without hidden ones */
  replies: number;
}

/** An author's comment on a product: a rating and a text. */
export interface CommentBody {
  /** 1 to 5 */
  rating: number;
  /** A BCP 47 tag, in upper or lower case. Responses have the recommended case, and for an irregular tag such as i-klingon its replacement. Tags are compared whole: en does not include en-GB */
  language: string;
  /** Up to 5,000 characters, or an empty text. Line ends and tabs are the only control characters. It is stored in NFC, with line feeds as line ends and without white space around it */
  text: string;
}

/** A change by the author: one or more of these fields. */
export interface CommentEdit {
  /** 1 to 5 */
  rating?: number;
  /** A BCP 47 tag, in upper or lower case. Responses have the recommended case, and for an irregular tag such as i-klingon its replacement. Tags are compared whole: en does not include en-GB */
  language?: string;
  /** Up to 5,000 characters, or an empty text. Line ends and tabs are the only control characters. It is stored in NFC, with line feeds as line ends and without white space around it */
  text?: string;
}

/** A change of a comment: rating, language and text by the author, or `hidden` by an admin. */
export type CommentPatch = CommentEdit | CommentVisibility;

/** A change by an admin. Only its author and admins see a hidden comment, and no statistics include it. */
export interface CommentVisibility {
  /** True hides the comment, false shows it again */
  hidden: boolean;
}

/** A page of comments, newest first. It may have fewer than `limit` comments and still a next page. */
export interface Comments {
  items: Array<Comment>;
  cursor: string | null;
  plan?: Plan;
}

/** The number of players in each range of scores. Ranges have one width, no gaps, and ascend. */
export interface Distribution {
  items: Array<ScoreBucket>;
}

/** A page of a leaderboard, best score first. */
export interface Entries {
  items: Array<BoardEntry>;
  cursor: string | null;
}

/** A signed-in guest: the token, and what it says. */
export interface Guest {
  /** The bearer token of the guest */
  token: string;
  /** The guest's identifier, which is random */
  sub: string;
  /** The display name in the token at the time of writing; null if the token had none */
  name: string | null;
  /** The end of the token's life */
  expires: string;
}

/** A new guest. */
export interface GuestBody {
  name?: string | null;
}

/** The state of the app. */
export interface Health {
  /** The name of the stage */
  stage: string;
  /** Default: "ok" */
  status: "ok";
}

/** The time that passes from a write until it is counted in the aggregates. */
export interface Lag {
  /** When the probe that measures the lag was written */
  sent: string;
  /** Seconds from `sent` until the probe was counted, or until now if it is not */
  seconds: number;
  /** Whether the probe is counted. If not, the lag is at least `seconds` */
  counted: boolean;
}

/** A product and the number of its comments with the rating 5. */
export interface Leader {
  /** The product */
  product: string;
  /** The number of its ratings of 5 */
  fiveStar: number;
}

/** Products by their number of comments with the rating 5, highest first, then by name. */
export interface Leaders {
  items: Array<Leader>;
  /** false if a product that is not listed may have as many; otherwise absent */
  complete?: boolean;
}

/** A leaderboard in the list of all leaderboards. */
export interface ListedBoard {
  /** The leaderboard's name */
  board: string;
  /** The title */
  title: string;
  /** The stored season */
  season: number;
  /** The time of its creation, to the second */
  created: string;
}

/** A challenge in the list of all challenges. */
export interface ListedChallenge {
  challenge: string;
  /** The title to display */
  title: string;
  /** An ISO 8601 instant with an offset; responses are in UTC */
  created: string;
}

/** A product that has had a comment. */
export interface ListedProduct {
  /** The product */
  product: string;
  /** The time of its first comment, to the second */
  created: string;
}

/** A site and its views. */
export interface ListedSite {
  /** A host without a scheme, port or path */
  site: string;
  /** Number of views */
  views: number;
}

/** The rules by which two notations of a path are equal. They are fixed when the challenge is created. */
export interface Normalization {
  /** `fold` ignores case. `keep` distinguishes it. Default: "fold" */
  case?: "fold" | "keep";
  /** `collapse` replaces consecutive blanks by one and removes blanks at both ends. `remove` removes all blanks. `keep` keeps them. Default: "collapse" */
  spaces?: "collapse" | "keep" | "remove";
  /** The Unicode normalization form. `NFKC` also replaces wide letters and ligatures. Default: "NFKC" */
  unicode?: "NFC" | "NFKC";
}

/** The configuration of the page at this stage. */
export interface PageConfig {
  /** The name of the stage */
  stage: string;
  /** The WebSocket address of the stage; empty when it is unknown */
  socket: string;
  /** Whether visitors can sign in as guests */
  guests: boolean;
  signIn: PageSignIn | null;
}

/** The identity provider with which the admin page signs in. */
export interface PageSignIn {
  /** The address of its authorization endpoint */
  authorize: string;
  /** The address of its token endpoint */
  token: string;
  /** The client id of the admin page */
  client: string;
}

/** A page's views, and its unique clients per day, summed over all days. */
export interface PageViews {
  /** The http(s) address of a page, in its normal form, up to 1,500 bytes */
  url: string;
  /** Number of views */
  views: number;
  /** Number of clients, each counted once per UTC day */
  uniques: number;
}

/** A submitted path. */
export interface PathBody {
  /** A path of 1 to 200 characters, at least one of them not blank */
  path: string;
}

/** The plan that found a page of comments, and its cost. */
export interface Plan {
  /** all: all comments of the product; filter: the same without those that do not match; merge: one sub-query for each rating and language, in parallel; none: no comment matches */
  way: "all" | "filter" | "merge" | "none";
  /** The number of cells (rating and language) with comments */
  subQueries: number;
  /** The number of cells (rating and language) without comments */
  skipped: number;
  /** The RRU that each plan was expected to cost */
  expected: Record<string, number>;
  /** The number of queries, with that of the statistics */
  queries: number;
  /** The read request units that DynamoDB counted */
  rru: number;
}

/** A comment with its product. */
export interface ProductComment {
  /** The comment's id, a ULID: ids sort by time */
  id: string;
  /** The author: the `sub` of a token */
  author: string;
  /** The display name in the token at the time of writing; null if the token had none */
  name: string | null;
  /** 1 to 5 */
  rating: number;
  /** A BCP 47 tag, in upper or lower case. Responses have the recommended case, and for an irregular tag such as i-klingon its replacement. Tags are compared whole: en does not include en-GB */
  language: string;
  /** Up to 5,000 characters, or an empty text. Line ends and tabs are the only control characters. It is stored in NFC, with line feeds as line ends and without white space around it */
  text: string;
  /** An ISO 8601 instant with an offset; responses are in UTC */
  created: string;
  /** The time of the last edit, or null */
  edited: string | null;
  /** Whether an admin has hidden it */
  hidden: boolean;
  /** The number of readers who find the comment helpful */
  votes: number;
  /** The number of its replies, without hidden ones */
  replies: number;
  /** The product */
  product: string;
}

/** A reply with its product and comment. */
export interface ProductReply {
  /** The reply's id, a ULID: ids sort by time */
  id: string;
  /** The author: the `sub` of a token */
  author: string;
  /** The display name in the token at the time of writing; null if the token had none */
  name: string | null;
  /** A BCP 47 tag, in upper or lower case. Responses have the recommended case, and for an irregular tag such as i-klingon its replacement. Tags are compared whole: en does not include en-GB */
  language: string;
  /** Up to 5,000 characters, or an empty text. Line ends and tabs are the only control characters. It is stored in NFC, with line feeds as line ends and without white space around it */
  text: string;
  /** An ISO 8601 instant with an offset; responses are in UTC */
  created: string;
  /** The time of the last edit, or null */
  edited: string | null;
  /** Whether an admin has hidden it */
  hidden: boolean;
  /** The product */
  product: string;
  /** The comment's id, a ULID: ids sort by time */
  comment: string;
}

/** A page of the products, newest first. */
export interface Products {
  items: Array<ListedProduct>;
  cursor: string | null;
}

/** The paths that a player has found, as submitted, oldest first. */
export interface Progress {
  /** The number of paths found */
  found: number;
  paths: Array<string>;
}

/** A page of quarantined images, newest first. */
export interface Quarantine {
  items: Array<QuarantinedImage>;
  cursor: string | null;
}

/** An item image whose contribution failed. It counts for nothing until it is redriven. */
export interface QuarantinedImage {
  /** When it was quarantined; null if unknown */
  time: string | null;
  /** `written`: the image is to be added. `left`: it is to be subtracted */
  change: "left" | "written";
  /** The error */
  reason: string;
  /** The item's partition key */
  pk: string | null;
  /** The item's sort key */
  sk: string | null;
  /** The item in DynamoDB's JSON, up to 2,000 characters; null if it is missing */
  image: string | null;
}

/** One of the last messages before a report, as sent by the reporter's client. */
export interface QuotedMessage {
  /** The author of the message */
  author: "reported" | "reporter";
  /** The text of the message */
  text: string;
  /** Whether the author has sent this text to the partner among the last eight messages */
  proved: boolean;
}

/** A product's ratings: counts and averages. */
export interface RatingStatistics {
  ratings: Ratings;
  /** The number of comments */
  total: number;
  /** The mean rating to four decimals, or null without a comment */
  average: number | null;
  /** The mean with one more vote for each rating: 3 without a comment */
  bayesianAverage: number;
}

/** The number of comments with each rating. */
export interface Ratings {
  /** The number of comments */
  "1": number;
  /** The number of comments */
  "2": number;
  /** The number of comments */
  "3": number;
  /** The number of comments */
  "4": number;
  /** The number of comments */
  "5": number;
}

/** A host that led to a site, and the views that came from it. */
export interface ReferrerViews {
  /** A host */
  referrer: string;
  /** Number of views */
  views: number;
}

/** A site's referrers in a period, most views first. */
export interface Referrers {
  items: Array<ReferrerViews>;
  /** false if an item that is not listed may have as many views; otherwise absent */
  complete?: boolean;
}

/** An event that does not count, with its index and the reason. */
export interface Rejection {
  /** Its index in `events`, from 0 */
  index: number;
  reason: "bad_client" | "bad_time" | "bad_url" | "bot" | "in_the_future" | "site_not_allowed" | "too_old";
}

/** A page of the replies to a comment, oldest first. It may have fewer than `limit` replies and still a next page. */
export interface Replies {
  items: Array<Reply>;
  cursor: string | null;
}

/** A reply to a comment. */
export interface Reply {
  /** The reply's id, a ULID: ids sort by time */
  id: string;
  /** The author: the `sub` of a token */
  author: string;
  /** The display name in the token at the time of writing; null if the token had none */
  name: string | null;
  /** A BCP 47 tag, in upper or lower case. Responses have the recommended case, and for an irregular tag such as i-klingon its replacement. Tags are compared whole: en does not include en-GB */
  language: string;
  /** Up to 5,000 characters, or an empty text. Line ends and tabs are the only control characters. It is stored in NFC, with line feeds as line ends and without white space around it */
  text: string;
  /** An ISO 8601 instant with an offset; responses are in UTC */
  created: string;
  /** The time of the last edit, or null */
  edited: string | null;
  /** Whether an admin has hidden it */
  hidden: boolean;
}

/** A reply to a comment: a text, and its language unless it is that of the comment. */
export interface ReplyBody {
  /** Up to 5,000 characters, or an empty text. Line ends and tabs are the only control characters. It is stored in NFC, with line feeds as line ends and without white space around it */
  text: string;
  /** A BCP 47 tag, in upper or lower case. Responses have the recommended case, and for an irregular tag such as i-klingon its replacement. Tags are compared whole: en does not include en-GB */
  language?: string;
}

/** A change by the author: one or both of these fields. */
export interface ReplyEdit {
  /** A BCP 47 tag, in upper or lower case. Responses have the recommended case, and for an irregular tag such as i-klingon its replacement. Tags are compared whole: en does not include en-GB */
  language?: string;
  /** Up to 5,000 characters, or an empty text. Line ends and tabs are the only control characters. It is stored in NFC, with line feeds as line ends and without white space around it */
  text?: string;
}

/** A change of a reply: language and text by the author, or `hidden` by an admin. */
export type ReplyPatch = ReplyEdit | ReplyVisibility;

/** A change by an admin. Only its author and admins see a hidden reply, and no number includes it. */
export interface ReplyVisibility {
  /** True hides the reply, false shows it again */
  hidden: boolean;
}

/** A report of a chat partner, with its reason and the last messages. Both visitors are anonymous. */
export interface Report {
  /** The report's id */
  id: string;
  /** An ISO 8601 instant with an offset; responses are in UTC */
  time: string;
  /** The lobby of the pair */
  lobby: string;
  /** The reason, as written by the reporter */
  reason: string;
  /** The reporter's id during this chat session */
  reporter: string;
  /** The reported visitor's id */
  reported: string;
  messages: Array<QuotedMessage>;
}

/** What an admin does about a report. Both actions remove the report from the list. */
export interface ReportAction {
  /** ban: the reported visitor's address and subject cannot connect for some hours */
  action: "ban" | "dismiss";
  /** The length of a ban. Default: 24 */
  hours?: number;
}

/** A page of reports, newest first. */
export interface Reports {
  items: Array<Report>;
  cursor: string | null;
}

/** A value for a player. Each id of a player counts once, in all seasons together. */
export interface ScoreBody {
  /** The client's id of this submission */
  id: string;
  /** The value to add or to set */
  value: number;
  time?: string | null;
  player?: string | null;
}

/** A range of scores that includes both of its ends. */
export interface ScoreBucket {
  /** The least score of the range */
  from: number;
  /** The greatest score of the range */
  to: number;
  /** The number of ranked players */
  players: number;
}

/** A player's score after a submission. Null: the player has been removed from the leaderboard since. */
export interface ScoreResult {
  /** The player's name */
  player: string;
  score: number | null;
}

/** The season to end. The same request again ends no further season. */
export interface SeasonBody {
  /** The number of the season, from 1 */
  season: number;
}

/** A page's hours or days, with 0 for gaps. */
export interface Series {
  items: Array<Bucket>;
}

/** One hour or day of a site. `time` is its beginning. */
export interface SiteBucket {
  /** An ISO 8601 instant with an offset; responses are in UTC */
  time: string;
  /** Number of views */
  views: number;
  /** Number of clients, each counted once per UTC day */
  visitors: number;
}

/** A site's hours or days, with 0 for gaps, and their views. `visitors` are those of the days in whole. */
export interface SiteSeries {
  /** Number of views */
  views: number;
  /** Number of clients, each counted once per UTC day */
  visitors: number;
  items: Array<SiteBucket>;
}

/** A page of the sites that have views, largest first. */
export interface Sites {
  items: Array<ListedSite>;
  cursor: string | null;
}

/** A player's score and rank, for example "211th of 1539". */
export interface Standing {
  /** The player's name */
  player: string;
  /** The display name in the token at the time of writing; null if the token had none */
  name: string | null;
  /** The exact score */
  score: number;
  /** 1 plus the number of strictly better players. Equal scores share a rank */
  rank: number;
  /** The number of ranked players */
  of: number;
  /** The share of players that are not better, in percent */
  percentile: number;
  toNext: number | null;
}

/** A path that the player has found, the number of paths found so far, and the limit. */
export interface SubmissionResult {
  /** A path of 1 to 200 characters, at least one of them not blank */
  path: string;
  /** The number of paths that the player has found */
  found: number;
  /** The most paths that a player may find */
  limit: number;
}

/** One of a site's most viewed pages. */
export interface TopPage {
  /** The http(s) address of a page, in its normal form, up to 1,500 bytes */
  url: string;
  /** Number of views */
  views: number;
}

/** A site's pages, most viewed first. */
export interface TopPages {
  items: Array<TopPage>;
  /** false if an item that is not listed may have as many views; otherwise absent */
  complete?: boolean;
}

/** Up to 25 view events, or 500 with a token. Each event that does not count is returned with a reason. */
export interface ViewBatch {
  /** At most 25 events, or 500 with a valid token of a user or an admin */
  events: Array<ViewEvent>;
}

/** One view: a page, an instant, a client. In a response, url and time are in normal form. */
export interface ViewEvent {
  /** The http(s) address of a page, up to 1,500 bytes, with a host of up to 253 characters, without a user name or password. A missing scheme is read as https. Addresses that differ only in case of scheme and host, punycode, a default port, dot segments, percent-encoding, a fragment or an empty query (`/a?`) are the same page. Addresses that differ in http or https, any other query or a trailing slash are different pages */
  url: string;
  /** An ISO 8601 instant with an offset; responses are in UTC */
  time: string;
  /** 1 to 128 printable ASCII characters without a space */
  clientId: string;
  /** The address of the page that led here. Its host is counted if it is not the site's own, with or without `www.`. A malformed referrer is ignored. In a response it is the host */
  referrer?: string;
  /** The name of the campaign that led here, of 1 to 100 printable characters. Any other is ignored */
  campaign?: string;
}

/** A page of view events, oldest first. */
export interface ViewEvents {
  items: Array<ViewEvent>;
  cursor: string | null;
}

/** One view event, or a list of them. The same url, instant and client count once, however often sent. */
export type ViewsBody = ViewEvent | ViewBatch;

/** The votes of a comment. */
export interface Votes {
  /** The number of votes with the caller's. Votes of the same moment may be missing */
  votes: number;
}
