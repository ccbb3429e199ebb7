"""Types and polymorphic functions of random functional programs."""

from __future__ import annotations

TYPES = """
type List[A] { Cons(A, List[A]), Nil }
type Option[A] { Some(A), None }
type Tree[A] { Node(Tree[A], A, Tree[A]), Leaf }
type Color { Red, Green, Blue }
type Pair[A, B] { MkPair(A, B) }
type Shape { Dot, Line(int32), Poly(List[Tensor[(?), int32]], Shape) }
"""

#: Per type the constructors and their fields, those of type parameters as numbers.  The last constructor ends recursion.
CONSTRUCTORS: dict[str, dict[str, tuple[object, ...]]] = {
    "List": {"Cons": (0, ("List", 0)), "Nil": ()},
    "Option": {"Some": (0,), "None": ()},
    "Tree": {"Node": (("Tree", 0), 0, ("Tree", 0)), "Leaf": ()},
    "Color": {"Red": (), "Green": (), "Blue": ()},
    "Pair": {"MkPair": (0, 1)},
    "Shape": {"Line": ("int",), "Poly": (("List", "vec"), ("Shape",)), "Dot": ()},
}
PARAMETERS = {"List": 1, "Option": 1, "Tree": 1, "Color": 0, "Pair": 2, "Shape": 0}

#: The text of each function.  The first two give a literal an unknown size.
FUNCTIONS = {
    "ints": "def @ints(%v: Tensor[(?), int32]) -> Tensor[(?), int32] { %v }",
    "floats": "def @floats(%v: Tensor[(?), float32]) -> Tensor[(?), float32] { %v }",
    "id": "def @id[A](%x: A) -> A { %x }",
    "first": "def @first[A, B](%a: A, %b: B) -> A { %a }",
    "swap": "def @swap[A, B](%p: (A, B)) -> (B, A) { (%p.1, %p.0) }",
    "twice": "def @twice[A](%f: fn(A) -> A, %x: A) -> A { %f(%f(%x)) }",
    "apply": "def @apply[A, B](%f: fn(A) -> B, %x: A) -> B { %f(%x) }",
    "compose": "def @compose[A, B, C](%f: fn(B) -> C, %g: fn(A) -> B) -> fn(A) -> C { fn (%x: A) -> C { %f(%g(%x)) } }",
    "constant": "def @constant[A, B](%a: A) -> fn(B) -> A { fn (%b: B) -> A { %a } }",
    "or_else": "def @or_else[A](%o: Option[A], %d: A) -> A { match (%o) { Some(%x) => %x, None => %d } }",
    "map": "def @map[A, B](%f: fn(A) -> B, %l: List[A]) -> List[B] {"
    " match (%l) { Cons(%x, %t) => Cons(%f(%x), @map(%f, %t)), Nil => Nil } }",
    "foldl": "def @foldl[A, B](%f: fn(A, B) -> A, %z: A, %l: List[B]) -> A {"
    " match (%l) { Cons(%x, %t) => @foldl(%f, %f(%z, %x), %t), Nil => %z } }",
    "foldr": "def @foldr[A, B](%f: fn(A, B) -> B, %z: B, %l: List[A]) -> B {"
    " match (%l) { Cons(%x, %t) => %f(%x, @foldr(%f, %z, %t)), Nil => %z } }",
    "zip": "def @zip[A, B](%a: List[A], %b: List[B]) -> List[(A, B)] {"
    " match ((%a, %b)) { (Cons(%x, %s), Cons(%y, %t)) => Cons((%x, %y), @zip(%s, %t)), _ => Nil } }",
    "walk": "def @walk[A, B](%f: fn(B, A, B) -> B, %z: B, %t: Tree[A]) -> B {"
    " match (%t) { Node(%l, %x, %r) => %f(@walk(%f, %z, %l), %x, @walk(%f, %z, %r)), Leaf => %z } }",
    "update": "def @update[A](%r: ref(A), %f: fn(A) -> A) -> A { ref_write(%r, %f(ref_read(%r))); ref_read(%r) }",
}
