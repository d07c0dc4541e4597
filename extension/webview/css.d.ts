/** A style sheet as text: its form in the page of `skyline serve`, which keeps it in a shadow tree. */
declare module "*.css" {
  const text: string;
  export default text;
}
